import { limits } from "@quiverdb/protocol/limits";
import { expect, it } from "vitest";
import type { Account } from "./fair-queue.ts";
import { Task } from "./scheduler.ts";
import { type EventLoop, SliceRounds } from "./slice-rounds.ts";

/** An event loop with its own clock, which only `spend` advances. */
class TestLoop implements EventLoop {
  #nowMs = 0;
  #deferred: (() => void)[] = [];
  rounds = 0;

  now(): number {
    return this.#nowMs;
  }

  defer(act: () => void): void {
    this.#deferred.push(act);
  }

  spend(ms: number): void {
    this.#nowMs += ms;
  }

  /** One round: all callbacks deferred before it, each with its microtasks. */
  async round(): Promise<boolean> {
    if (this.#deferred.length === 0) return false;
    this.rounds++;
    for (const act of this.#deferred.splice(0)) {
      act();
      for (let i = 0; i < 8; i++) await undefined;
    }
    return true;
  }

  async run(roundsMax = 100_000): Promise<void> {
    for (let i = 0; i < roundsMax && (await this.round()); i++);
  }
}

function scene() {
  const loop = new TestLoop();
  const scheduler = new SliceRounds(loop);
  const granted: string[] = [];
  /** A task with the given number of slices, each of `sliceMs`; every grant is recorded under its name. */
  const start = async (name: string, account: Account, slices: number, sliceMs: number = limits.sliceMs) => {
    const task = new Task(account, undefined, scheduler);
    for (let i = 0; i < slices; i++) {
      await task.slice();
      granted.push(name);
      loop.spend(sliceMs);
    }
  };
  const countOf = (name: string) => granted.filter((each) => each === name).length;
  return { loop, scheduler, granted, start, countOf };
}

it("[O9] grants one whole slice in each round of the event loop, whichever task it belongs to", async () => {
  const { loop, granted, start } = scene();
  const all = Promise.all(Array.from({ length: 10 }, (_, i) => start(`t${i}`, { key: "k" }, 3)));
  while (granted.length < 30) {
    const before = granted.length;
    expect(await loop.round()).toBe(true);
    expect(granted.length).toBe(before + 1);
  }
  await all;
});

it("[O9] grants as many small slices in a round as fit into the time of one", async () => {
  const { loop, granted, start } = scene();
  for (let i = 0; i < 100; i++) void start(`t${i}`, { key: "k" }, 1, limits.sliceMs / 10);
  // The first slice was requested while one task waited.
  await loop.round();
  expect(granted).toHaveLength(1);
  await loop.round();
  expect(granted.length).toBeGreaterThanOrEqual(10);
  expect(granted.length).toBeLessThanOrEqual(12);
  await loop.run();
  expect(granted).toHaveLength(100);
});

it("[O10] what slices let arrive is paid for by their key, and bounded in each round", async () => {
  const { loop, scheduler, granted, start, countOf } = scene();
  const bytes = 64 * 1024;
  const msPerByte = 8 / 2 ** 20;
  let arrived = 0;
  const bodies = Array.from({ length: 50 }, async () => {
    const task = new Task({ key: "bodies", arrivingBytes: bytes }, undefined, scheduler);
    for (let i = 0; i < 40; i++) {
      await task.slice();
      granted.push("bodies");
      task.arrived(bytes);
      arrived += bytes;
    }
  });
  void start("work", { key: "worker" }, 200);
  const most: number[] = [];
  for (let round = 0; countOf("work") < 200; round++) {
    const before = arrived;
    await loop.round();
    // What arrives is read between two rounds.
    loop.spend((arrived - before) * msPerByte);
    if (round > 50) most.push(arrived - before);
  }
  // Half of the time each: 200 slices of work, and as much reading.
  expect(arrived * msPerByte).toBeGreaterThan(0.7 * 200 * limits.sliceMs);
  expect(arrived * msPerByte).toBeLessThan(1.3 * 200 * limits.sliceMs);
  expect(Math.max(...most) * msPerByte).toBeLessThan(1.5 * limits.sliceMs);
  await loop.run();
  await Promise.all(bodies);
});

it("[O9] no slice is granted while something arrives in every round, but only for a limited time", async () => {
  const { loop, scheduler, granted, start } = scene();
  void start("work", { key: "k" }, 1);
  for (let i = 0; i < 1_000 && granted.length === 0; i++) {
    scheduler.arrived();
    loop.spend(0.1);
    await loop.round();
  }
  expect(loop.rounds * 0.1).toBeGreaterThanOrEqual(limits.arrivalsMs);
  expect(loop.rounds * 0.1).toBeLessThan(2 * limits.arrivalsMs);
});

it("[O10] a key gets its share however many tasks another one has, and weights count", async () => {
  const { loop, scheduler, start, countOf } = scene();
  for (let i = 0; i < 64; i++) void start("many", { key: "many" }, 1_000);
  void start("one", { key: "one" }, 1_000);
  void start("heavy", { key: "heavy", weight: 3 }, 3_000);
  await loop.run(500);
  expect(countOf("many")).toBeGreaterThan(95);
  expect(Math.abs(countOf("many") - countOf("one"))).toBeLessThanOrEqual(2);
  expect(Math.abs(countOf("heavy") - 3 * countOf("one"))).toBeLessThanOrEqual(4);
  expect(scheduler.useOf("one").ms).toBeCloseTo(limits.sliceMs * countOf("one"), 0);
});

it("[O10] what counts is time, not slices: who takes longer ones gets fewer", async () => {
  const { loop, start, countOf } = scene();
  void start("long", { key: "long" }, 1_000, 40);
  void start("short", { key: "short" }, 10_000, 4);
  await loop.run(550);
  expect(countOf("short") / countOf("long")).toBeGreaterThan(9);
  expect(countOf("short") / countOf("long")).toBeLessThan(11);
});

it("[O10] a task with little work gets the next slice but one, and a pause earns no credit", async () => {
  const { loop, scheduler, granted, start } = scene();
  for (let i = 0; i < 64; i++) void start("tyrant", { key: "tyrant" }, 10_000);
  for (let i = 0; i < 50; i++) {
    await loop.run(17);
    const before = granted.length;
    const done = start("small", { key: "small" }, 1, 0.5);
    await loop.run(2);
    expect(granted.slice(before)).toContain("small");
    await done;
  }
  // After its pauses the small key has no claim to more than its half.
  const before = granted.length;
  void start("small", { key: "small" }, 1_000);
  await loop.run(100);
  const share = granted.slice(before).filter((each) => each === "small").length;
  expect(share).toBeGreaterThanOrEqual(48);
  expect(share).toBeLessThanOrEqual(52);
  expect(scheduler.waiting).toBeGreaterThan(0);
});

it("[O10] below the key, collections get equal shares", async () => {
  const { loop, start, countOf } = scene();
  for (let i = 0; i < 20; i++) void start("busy", { key: "k", group: "busy" }, 1_000);
  void start("calm", { key: "k", group: "calm" }, 1_000);
  await loop.run(200);
  expect(Math.abs(countOf("busy") - countOf("calm"))).toBeLessThanOrEqual(2);
});

it("[O10] within a collection small work precedes large work, by expected and by measured time, without starvation", async () => {
  const { loop, granted, start } = scene();
  void start("large", { key: "k" }, 1_000);
  await loop.run(20);
  void start("expected", { key: "k", expectedMs: 1_000 }, 1);
  for (let i = 0; i < 10; i++) void start("small", { key: "k" }, 1);
  granted.length = 0;
  await loop.run(12);
  // One of eight slices goes to the task that has waited longest.
  expect(granted.filter((each) => each === "small").length).toBeGreaterThanOrEqual(9);
  await loop.run(200);
  expect(granted).toContain("expected");
  // However much small work arrives, the large task continues.
  granted.length = 0;
  for (let i = 0; i < 200; i++) {
    void start("small", { key: "k" }, 1);
    await loop.run(1);
  }
  expect(granted.filter((each) => each === "large").length).toBeGreaterThanOrEqual(10);
});

it("[O3] a waiting task leaves the queue when its caller is gone, or when it is cancelled", async () => {
  const { loop, scheduler, granted, start } = scene();
  void start("busy", { key: "busy" }, 1_000);
  const interest = { isOver: false, reason: new Error("gone"), check() {} };
  const task = new Task({ key: "busy", expectedMs: 1e9 }, interest, scheduler);
  const waiting = task.slice();
  interest.isOver = true;
  const rejected = expect(waiting).rejects.toThrow("gone");
  await loop.run(20);
  await rejected;
  expect(task.cancel(new Error("again"))).toBe(false);

  const other = new Task({ key: "busy", expectedMs: 1e9 }, undefined, scheduler);
  const cancelled = expect(other.slice()).rejects.toThrow("refused");
  expect(other.cancel(new Error("refused"))).toBe(true);
  await cancelled;
  expect(scheduler.waiting).toBe(1);
  expect(granted.length).toBeGreaterThan(0);
});

it("a task does its steps to their end, in as many slices as they take", async () => {
  const { loop, scheduler } = scene();
  const task = new Task({ key: "k" }, undefined, scheduler);
  let steps = 0;
  const finished = task.finish(
    (function* () {
      for (; steps < 20; steps++) {
        loop.spend(limits.sliceMs / 2);
        yield;
      }
      return "done";
    })(),
  );
  await loop.run();
  expect(await finished).toBe("done");
  expect(loop.rounds).toBeGreaterThanOrEqual(9);
});

it("[O14] a thread is held when it was busy for a slice without a turn of the event loop", async () => {
  const { loop, scheduler } = scene();
  expect(scheduler.isHeld).toBe(false);
  loop.spend(limits.sliceMs - 1);
  expect(scheduler.isHeld).toBe(false);
  loop.spend(1);
  expect(scheduler.isHeld).toBe(true);
  await loop.run();
  expect(scheduler.isHeld).toBe(false);
  // The next question is asked of the loop only when a slice has passed.
  expect(await loop.round()).toBe(false);
  loop.spend(limits.sliceMs);
  expect(scheduler.isHeld).toBe(false);
  expect(await loop.round()).toBe(true);
});
