// What do the hammer's drivers of both inverted kinds share?

import { finishAtOnce, type Steps } from "../../../src/base/steps.ts";
import type { Candidates, Index } from "../../../src/index/contract.ts";
import type { LegSearches } from "../../../src/index/kind.ts";
import type { HammeredVersion } from "../hammer-driver.ts";

export function mixed(a: number, b: number): number {
  let hash = Math.imul(a ^ 0x9e37_79b9, 0x85eb_ca6b) ^ b;
  hash = Math.imul(hash ^ (hash >>> 15), 0xc2b2_ae35);
  hash = Math.imul(hash ^ (hash >>> 13), 0x27d4_eb2f);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Records that a thread remembers of a collection. */
const rememberedMax = 30_000;

/** What `of` says of an ordinal, remembered for a while. */
export function remembered<T>(
  of: (seed: number, ordinal: number) => T,
): (seed: number, ordinal: number) => T {
  const bySeed = new Map<number, Map<number, T>>();
  return (seed, ordinal) => {
    let known = bySeed.get(seed);
    if (known === undefined || known.size > rememberedMax) {
      known = new Map();
      bySeed.set(seed, known);
    }
    let value = known.get(ordinal);
    if (value === undefined) {
      value = of(seed, ordinal);
      known.set(ordinal, value);
    }
    return value;
  };
}

interface Inverted extends Index {
  tidy(postings: number): boolean;
  freeze(): Steps<void>;
  save(): { done(isCheckpointed: boolean): void };
}

/** Checkpoints that are being written. */
const saving = new WeakMap<Index, { done(isCheckpointed: boolean): void }>();

/** Freezes, merges, compacts; begins a checkpoint or ends it. */
export function disturb(index: Inverted, random: () => number): void {
  for (let steps = Math.floor(random() * 4); steps > 0; steps--) index.tidy(Math.floor(random() * 4_000));
  if (random() < 0.02) finishAtOnce(index.freeze());
  if (random() > 0.05) return;
  const written = saving.get(index);
  if (written === undefined) saving.set(index, index.save());
  else settle(index);
}

/** Ends a checkpoint that is being written, and proves the index. */
export function check(index: Index): void {
  settle(index);
  index.check();
}

function settle(index: Index): void {
  saving.get(index)?.done(true);
  saving.delete(index);
}

/** What is wrong with an answer that should be exact. */
export function differenceOf(
  { count, ordinals, scores }: Candidates,
  expected: ReadonlyMap<number, number>,
): string | undefined {
  if (new Set(ordinals).size !== count) return "a record was found twice";
  for (let i = 0; i < count; i++) {
    const score = expected.get(ordinals[i]);
    if (score === undefined) return `record ${ordinals[i]} was found, which is not among the best`;
    if (score !== scores[i]) return `record ${ordinals[i]} has the score ${scores[i]} instead of ${score}`;
  }
  return count === expected.size ? undefined : `${count} records instead of ${expected.size}`;
}

/** What is wrong with the explanations of some of the best records of the first leg. @param parts of a record's score, as explained */
export function unexplained<Explained>(
  searches: LegSearches,
  best: ReadonlyMap<number, number>,
  parts: (explained: Explained) => readonly number[],
): string | undefined {
  const ordinals = [...best.keys()].slice(0, 5);
  const explained = finishAtOnce(searches.explain(0, ordinals, () => {})) as readonly Explained[];
  for (const [i, each] of explained.entries()) {
    const sum = parts(each).reduce((total, part) => total + part, 0);
    if (sum !== best.get(ordinals[i])) return `record ${ordinals[i]} is explained with ${sum}`;
  }
  return undefined;
}

/** Some of what a version sees; null: all. */
export function someOf({ ordinals }: HammeredVersion, random: () => number): Uint32Array | null {
  const share = random() < 0.7 ? 1 : random() ** 2;
  return share === 1 ? null : Uint32Array.from(ordinals.filter(() => random() < share));
}
