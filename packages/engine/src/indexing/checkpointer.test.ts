import { expect, test } from "vitest";
import type { CheckpointAdapter, CheckpointPlace } from "../index/checkpoint-adapter.ts";
import type { Index } from "../index/contract.ts";
import { Checkpointer } from "./checkpointer.ts";

const mib = 2 ** 20;

type Case = {
  changes: number;
  count: number;
  memoryBytes: number;
  linkedEnd?: number;
  isIdle?: boolean;
  isLast?: boolean;
};

/** Whether an index would be written to disk. */
async function isKept({
  changes,
  count,
  memoryBytes,
  linkedEnd,
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
  await checkpointer.keep({ count, memoryBytes, linkedEnd } as Index, () => 1, none, isLast);
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
  [
    true,
    "a third of much work while more is being built",
    { changes: 400, count: 1_200, memoryBytes: 100 * mib, isIdle: false },
  ],
  [
    false,
    "less of it while more is being built",
    { changes: 390, count: 1_200, memoryBytes: 100 * mib, isIdle: false },
  ],
  [
    false,
    "a third of what a scan serves meanwhile, while more is being built",
    { changes: 400, count: 1_200, memoryBytes: 100 * mib, linkedEnd: 800, isIdle: false },
  ],
  [
    true,
    "very many changes while more is being built",
    { changes: 100_000, count: 400_000, memoryBytes: 100 * mib, linkedEnd: 1, isIdle: false },
  ],
])("[I5] a checkpoint is written: %s, of %s", async (expected, _what, given) => {
  expect(await isKept(given)).toBe(expected);
});
