// Which of many that wait is the smallest?
//
// Small work comes before large work: an item waits at a level, and the lowest level that has any is served first, in order of
// arrival. So that large work is never starved, every `agingEvery`-th item taken is the one that has waited longest, whatever its level.
// This is a multi-level feedback queue whose levels are powers of two of the work that an item is known to need.

type Entry<T> = { readonly item: T; readonly number: number; isGone: boolean };

/** Of so many items taken, one is the oldest. */
const agingEvery = 8;

export class LevelQueue<T> {
  /** Entries by level, oldest first; removed ones stay until they come to the front. */
  readonly #levels: Entry<T>[][] = [];
  readonly #entries = new Map<T, Entry<T>>();
  #nextNumber = 0;
  #taken = 0;

  get size(): number {
    return this.#entries.size;
  }

  /** All that wait, oldest first within their level. */
  items(): IterableIterator<T> {
    return this.#entries.keys();
  }

  /** Adds an item, which must not wait already. @param level 0 is served first */
  add(item: T, level: number): void {
    const entry = { item, number: this.#nextNumber++, isGone: false };
    this.#entries.set(item, entry);
    while (this.#levels.length <= level) this.#levels.push([]);
    this.#levels[level].push(entry);
  }

  /** Takes an item out. @returns whether it was there */
  remove(item: T): boolean {
    const entry = this.#entries.get(item);
    if (entry === undefined) return false;
    entry.isGone = true;
    this.#entries.delete(item);
    return true;
  }

  /** Takes out the next item that passes; undefined where none waits. */
  take(): T | undefined {
    const isOldestDue = ++this.#taken % agingEvery === 0;
    let next: Entry<T>[] | undefined;
    for (const level of this.#levels) {
      while (level.length > 0 && level[0].isGone) level.shift();
      if (level.length === 0) continue;
      if (next === undefined || (isOldestDue && level[0].number < next[0].number)) next = level;
      if (!isOldestDue) break;
    }
    const entry = next?.shift();
    if (entry === undefined) return undefined;
    this.#entries.delete(entry.item);
    return entry.item;
  }
}

/** The level of work that needs so many milliseconds: 0 for one unit at most, then one more for each doubling. */
export function levelOf(ms: number, unitMs: number): number {
  return ms <= unitMs ? 0 : Math.min(levelMax, Math.ceil(Math.log2(ms / unitMs)));
}

const levelMax = 20;
