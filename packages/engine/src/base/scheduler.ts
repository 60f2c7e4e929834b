// Who gets the next time slice of this thread?
//
// All long work of a thread runs in time slices of a few milliseconds. Between slices the event loop reads the bytes that have arrived:
//
//   arrivals | slice of A | arrivals | slice of B | arrivals | slice of A | ...
//
// A task names the key that is charged for it (an API key, or background work) and its group within the key (a collection). The next
// slice goes
//
//   1. to the key that has received the least, by start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). Each key has a virtual
//      time. A slice advances it by its milliseconds divided by the key's weight. A key that returns after a pause starts at the virtual
//      time of the last granted slice. So a pause earns no credit, and a key with little work is served next.
//   2. within the key, to the group that has received the least, in the same way.
//   3. within the group, to the smallest task. The size of a task is the greater of its expected and its received time, with aging
//      (level-queue.ts). So a task that needs more than expected falls behind automatically.
//
// The scheduler measures the duration of a slice when the event loop continues, so no task reports it. Reading the bytes that a task lets
// arrive also takes time, after the round. The scheduler measures that from round to round, and charges the tasks whose bytes arrived;
// they report the bytes (`arrivedFor`). A round of the loop grants as many slices as fit into the length of one. The reason: reading
// may take longer than many small slices (64 connections that send 4 MB each: 5 to 50 ms a round). With one slice a round, 200
// slices of 0.1 ms of one client delayed all others by 600 ms.
//
// libuv (1.45 and later) accepts only one connection in each round of the event loop. So the code that accepts connections reports that
// something has `arrived`. The loop then runs without slices until a round brings nothing new, but for no longer than `arrivalsMs`, so
// that work continues too.
//
// The scheduler knows nothing of HTTP. Work that waits for a builder, the disk or a client is not in its queues.
//
// One file: a task and the scheduler call each other, and the fairness is in how.

import { limits } from "@quiver/protocol/limits";
import { host } from "./host.ts";
import { invariant } from "./invariant.ts";
import { LevelQueue, levelOf } from "./level-queue.ts";

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
export type Interest = { readonly isOver: boolean; readonly reason: unknown };

const always: Interest = { isOver: false, reason: undefined };

/** The event loop, as the scheduler uses it. Tests pass their own. */
export type EventLoop = {
  now(): number;
  /** Calls back in the next round. Several pending calls run in one round, one after the other, with promises settled in between. */
  defer(act: () => void): void;
};

const realLoop: EventLoop = {
  now: () => performance.now(),
  // Deferred callbacks grant slices, which settle the promises of tasks, and never throw.
  defer(act) {
    host.defer(act);
  },
};

/** Slices in a round of the event loop, at most. */
const slicesPerRound = 64;

/**
 * Minimum cost of reading a byte (0.9 to 1.1 ms per MiB, measured with Node's server alone); a much higher value has other causes. The mean
 * is taken over about this many bytes.
 */
const arrivalMsPerByteMin = 1 / 2 ** 20;
const arrivalMsPerByteMax = 16 / 2 ** 20;
const arrivalBytesOver = 8 * 2 ** 20;

/** Milliseconds between two checks for tasks whose deadline is over. */
const sweepMs = 20;

/** Something that receives slices: a key, or a group of one. */
type Share = { virtualMs: number; weight: number };
type Group = Share & { readonly tasks: LevelQueue<Task> };
type Key = Share & { readonly groups: Map<string, Group>; virtualNowMs: number; waiting: number };

/** Total time granted to a key since the start. */
export type KeyUse = { slices: number; ms: number };

/** Keys that are remembered although none of their tasks waits. */
const idleKeysMax = 4_096;

export class Scheduler {
  readonly #loop: EventLoop;
  readonly #keys = new Map<string, Key>();
  readonly #uses = new Map<string, KeyUse>();
  /** Virtual time of the slice that was granted last. */
  #virtualNowMs = 0;
  #waiting = 0;
  #isScheduled = false;
  #running: { task: Task; beganMs: number } | undefined;
  #arrivals = 0;
  #seen = 0;
  #arrivalsEndMs: number | undefined;
  /** When no further slice begins in this round. */
  #roundEndMs = 0;
  /** When the last round ended, where another one was to follow at once. */
  #roundEndedMs: number | undefined;
  /** Bytes that have been read since then, by the tasks that let them arrive. */
  readonly #arriving = new Map<Task, number>();
  /** The recently measured cost of reading on this thread. */
  #msPerByte = arrivalMsPerByteMin;
  #sweptMs = Number.NEGATIVE_INFINITY;
  /** The longest slice since the last query. */
  #longestMs = 0;

  constructor(loop: EventLoop = realLoop) {
    this.#loop = loop;
  }

  /** Tasks that wait for a slice. */
  get waiting(): number {
    return this.#waiting;
  }

  now(): number {
    return this.#loop.now();
  }

  /** Reports an external event that was waiting to be handled. */
  arrived(): void {
    this.#arrivals++;
  }

  /** Reports bytes that were read for a task. */
  arrivedFor(task: Task, bytes: number): void {
    this.#arriving.set(task, (this.#arriving.get(task) ?? 0) + bytes);
  }

  /** The time that a key has received; zero for an unknown key. */
  useOf(key: string): KeyUse {
    return this.#uses.get(key) ?? { slices: 0, ms: 0 };
  }

  /** Milliseconds of the longest slice since the last call. */
  takeLongestMs(): number {
    const longest = this.#longestMs;
    this.#longestMs = 0;
    return longest;
  }

  /** Queues a task for its next slice. The task is `granted` it in a later round, or `refused` if its deadline is over. */
  enter(task: Task): void {
    const { key, group } = this.#sharesOf(task.account);
    group.tasks.add(task, levelOf(task.demandMs, limits.sliceMs));
    key.waiting++;
    this.#waiting++;
    this.#schedule();
  }

  /** Takes a waiting task out. @returns whether it waited */
  leave(task: Task): boolean {
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

  #schedule(): void {
    if (this.#isScheduled || this.#waiting === 0) return;
    this.#isScheduled = true;
    this.#loop.defer(() => this.#beginRound());
    for (let slots = Math.min(this.#waiting, slicesPerRound) - 1; slots > 0; slots--)
      this.#loop.defer(() => this.#goOn());
    this.#loop.defer(() => this.#endRound());
  }

  #beginRound(): void {
    const nowMs = this.#loop.now();
    this.#chargeArrivals(nowMs);
    this.#sweep(nowMs);
    this.#roundEndMs = nowMs + limits.sliceMs;
    if (this.#arrivals !== this.#seen) {
      this.#seen = this.#arrivals;
      this.#arrivalsEndMs ??= nowMs + limits.arrivalsMs;
      if (nowMs < this.#arrivalsEndMs) {
        this.#roundEndMs = nowMs;
        return;
      }
    }
    this.#arrivalsEndMs = undefined;
    this.#grant();
  }

  #goOn(): void {
    this.#account();
    if (this.#loop.now() < this.#roundEndMs) this.#grant();
  }

  #grant(): void {
    const task = this.#next();
    if (task === undefined) return;
    this.#running = { task, beganMs: this.#loop.now() };
    task.grant();
  }

  /** Takes the next task out of its queue. */
  #next(): Task | undefined {
    const key = least(this.#keys.values(), (each) => each.waiting > 0);
    if (key === undefined) return undefined;
    const group = least(key.groups.values(), (each) => each.tasks.size > 0);
    invariant(group !== undefined, "a key with waiting tasks has no group with any");
    this.#virtualNowMs = key.virtualMs;
    key.virtualNowMs = group.virtualMs;
    this.#left(key);
    return group.tasks.take();
  }

  #endRound(): void {
    this.#account();
    this.#isScheduled = false;
    // If something waits, the loop starts its next round as soon as it has read the available data.
    this.#roundEndedMs = this.#waiting > 0 ? this.#loop.now() : undefined;
    this.#schedule();
  }

  /** Books the time since the last round for those whose bytes were read in it. */
  #chargeArrivals(nowMs: number): void {
    const [arriving, beganMs] = [[...this.#arriving], this.#roundEndedMs];
    this.#arriving.clear();
    if (beganMs === undefined || arriving.length === 0) return;
    const ms = nowMs - beganMs;
    const bytes = arriving.reduce((sum, [, each]) => sum + each, 0);
    for (const [task, each] of arriving) this.#charge(task, (ms * each) / bytes);
    const measured = Math.min(arrivalMsPerByteMax, Math.max(arrivalMsPerByteMin, ms / bytes));
    const weight = Math.min(1, bytes / arrivalBytesOver);
    this.#msPerByte += weight * (measured - this.#msPerByte);
  }

  /** Charges the duration of the last granted slice, whose promise callbacks have all run. */
  #account(): void {
    const running = this.#running;
    this.#running = undefined;
    if (running !== undefined) {
      const ms = Math.max(sliceMsMin, this.#loop.now() - running.beganMs);
      this.#longestMs = Math.max(this.#longestMs, ms);
      this.#roundEndMs -= (running.task.account.arrivingBytes ?? 0) * this.#msPerByte;
      this.#charge(running.task, ms);
    }
  }

  #charge(task: Task, ms: number): void {
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
  #sweep(nowMs: number): void {
    if (nowMs < this.#sweptMs + sweepMs) return;
    this.#sweptMs = nowMs;
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

/** Minimum charge of a slice, because a round of the event loop has a cost. */
const sliceMsMin = 0.02;

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

/** The scheduler of this thread. */
export const scheduler = new Scheduler();

/** One piece of work, which runs in slices. */
export class Task {
  readonly account: Account;
  readonly interest: Interest;
  readonly #scheduler: Scheduler;
  #expectedMs: number;
  /** Milliseconds of slices that it has had. */
  receivedMs = 0;
  #endMs: number;
  #waiting: { resolve(): void; reject(reason: unknown): void } | undefined;

  /** Its first slice starts now, because its creator is already working on it. @param interest called while it waits */
  constructor(account: Account, interest: Interest = always, of: Scheduler = scheduler) {
    this.account = account;
    this.interest = interest;
    this.#scheduler = of;
    this.#expectedMs = account.expectedMs ?? 0;
    this.#endMs = of.now() + limits.sliceMs;
  }

  /** Its total work, as far as it is known. */
  get demandMs(): number {
    return Math.max(this.#expectedMs, this.receivedMs);
  }

  /** Updates the expected need of the task. */
  expect(ms: number): void {
    this.#expectedMs = ms;
  }

  /** Whether the slice is used up. */
  readonly isOver = (): boolean => this.#scheduler.now() >= this.#endMs;

  /** Reports bytes that were read for this task. */
  arrived(bytes: number): void {
    this.#scheduler.arrivedFor(this, bytes);
  }

  /** Waits for the next slice. @throws the interest's reason when that is over first */
  slice(): Promise<void> {
    invariant(this.#waiting === undefined, "a task waits for two slices at once");
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#scheduler.enter(this);
    });
  }

  /** Ends its waiting; `slice` rejects. @returns whether it waited */
  cancel(reason: unknown): boolean {
    if (!this.#scheduler.leave(this)) return false;
    this.refuse(reason);
    return true;
  }

  /** Waits for the next slice where this one is used up. */
  async pause(): Promise<void> {
    if (this.isOver()) await this.slice();
  }

  /** Starts work in steps; returns its value if this slice is enough. */
  begin<T>(steps: Generator<void, T>): T | Promise<T> {
    for (;;) {
      const step = steps.next();
      if (step.done) return step.value;
      if (this.isOver()) return this.slice().then(() => this.finish(steps));
    }
  }

  /** Runs work in steps to its end. */
  async finish<T>(steps: Generator<void, T>): Promise<T> {
    for (;;) {
      const step = steps.next();
      if (step.done) return step.value;
      if (this.isOver()) await this.slice();
    }
  }

  /** Called by the scheduler alone. */
  grant(): void {
    this.#endMs = this.#scheduler.now() + limits.sliceMs;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (this.interest.isOver) waiting?.reject(this.interest.reason);
    else waiting?.resolve();
  }

  /** Called by the scheduler alone. */
  refuse(reason: unknown): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.reject(reason);
  }
}

/** Reports an external event that was waiting to be handled by this thread. */
export function arrived(): void {
  scheduler.arrived();
}
