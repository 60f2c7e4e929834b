// Which waiting item comes next, so that small work precedes large work?
//
// Each item waits at a level. The queue takes items from the lowest non-empty level, in order of arrival. To prevent starvation of large
// work, every `agingEvery`-th item taken is the one that has waited longest, whatever its level. This is a multi-level feedback
// queue whose levels are powers of two of the work that an item is known to need.

type Entry<T> = { readonly item: T; readonly number: number; isGone: boolean };

/** One item in this many is the oldest one. */
const agingEvery = 8;

export class LevelQueue<T> {
  /** Entries by level, oldest first. Removed ones stay until they reach the front. */
  readonly #levels: Entry<T>[][] = [];
  readonly #entries = new Map<T, Entry<T>>();
  #nextNumber = 0;
  #taken = 0;

  get size(): number {
    return this.#entries.size;
  }

  /** All waiting items, oldest first within each level. */
  items(): IterableIterator<T> {
    return this.#entries.keys();
  }

  /** Adds an item, which must not be in the queue. @param level 0 is served first */
  add(item: T, level: number): void {
    const entry = { item, number: this.#nextNumber++, isGone: false };
    this.#entries.set(item, entry);
    while (this.#levels.length <= level) this.#levels.push([]);
    this.#levels[level].push(entry);
  }

  /** Removes an item. @returns whether it was present */
  remove(item: T): boolean {
    const entry = this.#entries.get(item);
    if (entry === undefined) return false;
    entry.isGone = true;
    this.#entries.delete(item);
    return true;
  }

  /** Removes and returns the next item that passes; undefined if there is none. */
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

/** The level for work of a given length in milliseconds: 0 up to one unit, then one more for each doubling. */
export function levelOf(ms: number, unitMs: number): number {
  return ms <= unitMs ? 0 : Math.min(levelMax, Math.ceil(Math.log2(ms / unitMs)));
}

const levelMax = 20;
