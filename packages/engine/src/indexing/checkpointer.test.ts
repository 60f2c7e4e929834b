import { expect, test } from "vitest";
import type { CheckpointAdapter, CheckpointPlace } from "../index/checkpoint-adapter.ts";
import type { Index } from "../index/contract.ts";
import { Checkpointer } from "./checkpointer.ts";

const mib = 2 ** 20;

type Case = { changes: number; count: number; memoryBytes: number; isIdle?: boolean; isLast?: boolean };

/** Whether an idle index would be written to disk. */
async function isKept({
  changes,
  count,
  memoryBytes,
  isIdle = true,
  isLast = false,
}: Case): Promise<boolean> {
  let saves = 0;
  const form: CheckpointAdapter<Index, unknown> = {
    changes: () => changes,
    hasNews: () => false,
    isIdle: () => isIdle,
    save: async () => void saves++,
    endOf: () => 0,
    restored: () => Promise.reject(new Error("nothing is restored here")),
  };
  const checkpointer = new Checkpointer({} as CheckpointPlace, "configuration", form, () => undefined);
  const none = () => {
    throw new Error("nothing is read here");
  };
  await checkpointer.keep({ count, memoryBytes } as Index, () => 1, none, isLast);
  return saves === 1;
}

test.each<[boolean, string, Case]>([
  [true, "many changes, and a great share", { changes: 2_000, count: 10_000, memoryBytes: 1 * mib }],
  [false, "many changes, and a small share", { changes: 2_000, count: 100_000, memoryBytes: 100 * mib }],
  [true, "many changes at the end", { changes: 2_000, count: 100_000, memoryBytes: 100 * mib, isLast: true }],
  [false, "few changes of an index that is quick to build", { changes: 12, count: 12, memoryBytes: 1 * mib }],
  [true, "few records that take much", { changes: 12, count: 12, memoryBytes: 100 * mib }],
  [
    true,
    "few records that take much, at the end",
    { changes: 12, count: 12, memoryBytes: 100 * mib, isLast: true },
  ],
  [false, "a small share of them", { changes: 1, count: 12, memoryBytes: 100 * mib, isLast: true }],
  [false, "none of them", { changes: 0, count: 0, memoryBytes: 100 * mib, isLast: true }],
  [
    false,
    "a great share while more is being built",
    { changes: 2_000, count: 10_000, memoryBytes: mib, isIdle: false },
  ],
])("[I5] a checkpoint is written: %s, of %s", async (expected, _what, given) => {
  expect(await isKept(given)).toBe(expected);
});
