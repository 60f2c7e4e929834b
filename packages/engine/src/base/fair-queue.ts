// Which of the waiting tasks gets the next time slice?
//
// A task names the key that is charged for it (an API key, or background work) and its group within the key (a collection). The next
// slice goes
//
//   1. to the key that has received the least, by start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). Each key has a virtual
//      time. A slice advances it by its milliseconds divided by the key's weight. A key that returns after a pause starts at the virtual
//      time of the last granted slice. So a pause earns no credit, and a key with little work is served next.
//   2. within the key, to the group that has received the least, in the same way.
//   3. within the group, to the smallest task. The size of a task is the greater of its expected and its received time, with aging
//      (LevelQueue). So a task that needs more than expected falls behind automatically.

import { limits } from "@quiverdb/protocol/limits";
import { invariant } from "./invariant.ts";

/** The account that is charged for a task. */
export type Account = {
  /** Keys share the thread by their weights. */
  readonly key: string;
  /** Weight of the key, above 0; default 1. The latest value counts. */
  readonly weight?: number | undefined;
  /** The groups of a key share its time; default "". */
  readonly group?: string | undefined;
  /** Expected milliseconds of work; default 0. */
  readonly expectedMs?: number | undefined;
  /** Bytes that each slice lets arrive at most, which this thread reads outside of slices; default 0. */
  readonly arrivingBytes?: number | undefined;
};

/** Returns whether a task is still needed. */
export type Interest = {
  readonly isOver: boolean;
  readonly reason: unknown;
  /** Called before each further slice. @throws the reason if it is over, and whatever else ends the work */
  check(): void;
};

/** What waits in the queue. */
export interface Waiting {
  readonly account: Account;
  readonly interest: Interest;
  /** Its total work in milliseconds, as far as it is known. */
  readonly demandMs: number;
  /** Milliseconds of slices that it has had; the queue adds to it. */
  receivedMs: number;
  /** Its slice begins. */
  grant(): void;
  /** It gets no slice any more. */
  refuse(reason: unknown): void;
}

/** Something that receives slices: a key, or a group of one. */
type Share = { virtualMs: number; weight: number };
type Group = Share & { readonly tasks: LevelQueue<Waiting> };
type Key = Share & { readonly groups: Map<string, Group>; virtualNowMs: number; waiting: number };

/** Total time granted to a key since the start. */
export type KeyUse = { slices: number; ms: number };

/** Keys that are remembered although none of their tasks waits. */
const idleKeysMax = 4_096;

export class FairQueue {
  readonly #keys = new Map<string, Key>();
  readonly #uses = new Map<string, KeyUse>();
  /** Virtual time of the slice that was granted last. */
  #virtualNowMs = 0;
  #waiting = 0;

  /** Tasks that wait for a slice. */
  get waiting(): number {
    return this.#waiting;
  }

  /** The time that a key has received; zero for an unknown key. */
  useOf(key: string): KeyUse {
    return this.#uses.get(key) ?? { slices: 0, ms: 0 };
  }

  /** Queues a task for its next slice. */
  enter(task: Waiting): void {
    const { key, group } = this.#sharesOf(task.account);
    group.tasks.add(task, levelOf(task.demandMs, limits.sliceMs));
    key.waiting++;
    this.#waiting++;
  }

  /** Takes a waiting task out. @returns whether it waited */
  leave(task: Waiting): boolean {
    const { key: name, group = "" } = task.account;
    const key = this.#keys.get(name);
    return key?.groups.get(group)?.tasks.remove(task) === true && this.#left(key);
  }

  #left(key: Key): true {
    key.waiting--;
    this.#waiting--;
    return true;
  }

  #sharesOf({ key: name, weight, group: groupName = "" }: Account): { key: Key; group: Group } {
    let key = this.#keys.get(name);
    if (key === undefined) {
      if (this.#keys.size >= idleKeysMax) this.#forgetIdle();
      key = { virtualMs: 0, weight: 1, groups: new Map(), virtualNowMs: 0, waiting: 0 };
      this.#keys.set(name, key);
    }
    if (weight !== undefined) key.weight = weight;
    if (key.waiting === 0) key.virtualMs = Math.max(key.virtualMs, this.#virtualNowMs);
    let group = key.groups.get(groupName);
    if (group === undefined) {
      if (key.groups.size >= idleKeysMax) forgetIdleGroups(key);
      group = { virtualMs: 0, weight: 1, tasks: new LevelQueue() };
      key.groups.set(groupName, group);
    }
    if (group.tasks.size === 0) group.virtualMs = Math.max(group.virtualMs, key.virtualNowMs);
    return { key, group };
  }

  #forgetIdle(): void {
    for (const [name, key] of this.#keys) {
      if (key.waiting > 0) continue;
      this.#keys.delete(name);
      this.#uses.delete(name);
    }
  }

  /** Takes the next task out of its queue. */
  take(): Waiting | undefined {
    const key = least(this.#keys.values(), (each) => each.waiting > 0);
    if (key === undefined) return undefined;
    const group = least(key.groups.values(), (each) => each.tasks.size > 0);
    invariant(group !== undefined, "a key with waiting tasks has no group with any");
    this.#virtualNowMs = key.virtualMs;
    key.virtualNowMs = group.virtualMs;
    this.#left(key);
    return group.tasks.take();
  }

  /** Books milliseconds of a task. */
  charge(task: Waiting, ms: number): void {
    task.receivedMs += ms;
    const { key: name, group = "" } = task.account;
    const key = this.#keys.get(name);
    if (key === undefined) return;
    key.virtualMs += ms / key.weight;
    const part = key.groups.get(group);
    if (part !== undefined) part.virtualMs += ms;
    const use = this.#uses.get(name);
    if (use === undefined) this.#uses.set(name, { slices: 1, ms });
    else {
      use.slices++;
      use.ms += ms;
    }
  }

  /** Refuses the tasks whose deadline is over. */
  sweep(): void {
    for (const key of this.#keys.values())
      for (const group of key.groups.values())
        for (const task of group.tasks.items()) {
          if (!task.interest.isOver) continue;
          group.tasks.remove(task);
          this.#left(key);
          task.refuse(task.interest.reason);
        }
  }
}

function forgetIdleGroups(key: Key): void {
  for (const [name, { tasks }] of key.groups) if (tasks.size === 0) key.groups.delete(name);
}

/** The share with the lowest virtual time among those that pass; the first one of equals. */
function least<T extends Share>(shares: Iterable<T>, passes: (share: T) => boolean): T | undefined {
  let found: T | undefined;
  for (const share of shares)
    if ((found === undefined || share.virtualMs < found.virtualMs) && passes(share)) found = share;
  return found;
}

// ---- Which waiting item comes next, so that small work precedes large work?
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
