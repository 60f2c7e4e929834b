// When does a server start one more serving thread?
//
// A thread costs memory, and processor time of its own: its caches are cold, the owner answers it, and it collects its own garbage. On two
// cores with a client that takes half of one, a second thread brings 1.1 times the throughput for 1.3 times the processor time of a search
// (docs/decisions/serving-threads.md). So one more is started only while all are busy, there is more than one connection to spread, and a
// good part of a core is idle.

import { cpus } from "node:os";

/** Milliseconds between two looks, and how many of them in a row must see the need. */
export const lookMs = 500;
const looks = 3;
/** The share of its time in which a thread works, from which on it is busy. */
const busyShare = 0.85;
/** With less of a core idle, one more thread takes it from those that there are, or from the clients. */
const idleCoresMin = 0.6;

export type Look = {
  /** The share of its time in which each thread has worked since the last look, 0 to 1. */
  readonly busy: readonly number[];
  readonly connections: number;
  readonly idleCores: number;
};

export class Growth {
  #seen = 0;

  /** Whether one more thread is needed. */
  isNeeded({ busy, connections, idleCores }: Look): boolean {
    const isNow =
      busy.every((share) => share >= busyShare) && connections > busy.length && idleCores >= idleCoresMin;
    this.#seen = isNow ? this.#seen + 1 : 0;
    if (this.#seen < looks) return false;
    this.#seen = 0;
    return true;
  }
}

/** @returns a function that says how many cores of the machine were idle since its last call */
export function idleCoresOfMachine(): () => number {
  const read = () =>
    cpus().reduce(
      ({ idle, all }, { times }) => ({
        idle: idle + times.idle,
        all: all + times.user + times.nice + times.sys + times.idle + times.irq,
      }),
      { idle: 0, all: 0 },
    );
  let last = read();
  return () => {
    const now = read();
    const share = (now.idle - last.idle) / Math.max(1, now.all - last.all);
    last = now;
    return share * cpus().length;
  };
}
