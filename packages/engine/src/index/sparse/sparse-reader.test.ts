import { describe, expect, test } from "vitest";
import { type Published, posted, Versioned } from "../../../test/index/inverted/versioned.ts";
import { finishAtOnce } from "../../base/steps.ts";
import type { Candidates } from "../contract.ts";
import { OrdinalBitmap } from "../ordinal-bitmap.ts";
import { SparseIndex } from "./sparse-index.ts";
import { type SparseMatch, SparseReader, type SparseVector } from "./sparse-reader.ts";

/** Mulberry32. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

const dimensions = 60;
/** Some dimensions are far beyond those that an array is kept for. */
const dimensionOf = (i: number): number => (i % 7 === 0 ? 2 ** 31 + 97 * i : i);

function vectorOf(random: (below: number) => number, length: number, isSigned: boolean): SparseVector {
  const chosen = new Set<number>();
  while (chosen.size < length) chosen.add(dimensionOf(Math.min(random(dimensions), random(dimensions))));
  const indices = Uint32Array.from(chosen).sort();
  const values = Float32Array.from(indices, () => (1 + random(100)) / 10 - (isSigned ? 5 : 0));
  return { indices, values };
}

function bruteForce(
  records: ReadonlyMap<number, SparseVector>,
  { ordinalEnd, visible }: Published,
  query: SparseVector,
  k: number,
): Map<number, number> {
  const scores: [number, number][] = [];
  const weights = new Map(Array.from(query.indices, (dimension, i) => [dimension, query.values[i]]));
  for (const [ordinal, { indices, values }] of records) {
    if (ordinal >= ordinalEnd || !visible(ordinal)) continue;
    let [score, isFound] = [0, false];
    for (let i = 0; i < indices.length; i++) {
      const weight = weights.get(indices[i]);
      if (weight === undefined) continue;
      score += weight * values[i];
      isFound = true;
    }
    if (isFound) scores.push([ordinal, score]);
  }
  scores.sort((a, b) => b[1] - a[1]);
  const least = scores.length <= k ? Number.NEGATIVE_INFINITY : scores[k - 1][1];
  return new Map(scores.filter(([, score]) => score >= least));
}

const asMap = ({ count, ordinals, scores }: Candidates): Map<number, number> =>
  new Map(Array.from({ length: count }, (_, i) => [ordinals[i], scores[i]]));

function explained(reader: SparseReader, ordinals: readonly number[], query: SparseVector): SparseMatch[][] {
  const matches: SparseMatch[][] = ordinals.map(() => []);
  for (const _ of reader.explain(ordinals, query, (at, match) => matches[at].push(match)));
  return matches;
}

/** What was read of a version when it was published, and is read again. */
type Reading = Published & {
  readonly descriptor: object;
  readonly reader: SparseReader;
  readonly queries: readonly { query: SparseVector; k: number; threshold: number }[];
  readonly found: readonly Map<number, number>[];
};

describe.each([
  ["positive weights", false],
  ["signed weights", true],
] as const)("%s", (_name, isSigned) => {
  test.each([1, 2, 3])(
    "an attached reader finds what its version has, bit for bit, whatever the owner changes; seed %i",
    (seed) => {
      const random = randomOf(seed + (isSigned ? 100 : 0));
      const records = new Map<number, SparseVector>();
      const versions = new Versioned(
        (retire) => new SparseIndex({ retire, bufferRecordsMax: 200, levels: 64, debug: true }),
      );
      const { index } = versions;
      const readings: Reading[] = [];
      const checkReading = (reading: Reading, reader: SparseReader) => {
        for (const [i, { query, k, threshold }] of reading.queries.entries()) {
          const steps = reader.searchInSteps(query, k, threshold, () => reading.visible);
          const found = asMap(finishAtOnce(steps));
          expect(found).toEqual(reading.found[i]);
          if (threshold === 0) expect(found).toEqual(bruteForce(records, reading, query, k));
        }
      };
      for (let round = 0; round < 60; round++) {
        const changes = random(120);
        for (let i = 0; i < changes; i++) {
          const ordinal = versions.next(random(20) === 0 ? random(50) : 0);
          const vector = vectorOf(random, 1 + random(12), isSigned);
          records.set(ordinal, vector);
          index.add(ordinal, vector.indices, vector.values);
        }
        const live = [...versions.live];
        for (let i = random(2 * changes + 1); i > 0 && live.length > 0; i--)
          versions.close(live.splice(random(live.length), 1)[0]);
        // What is added before the view is described, and is younger than it.
        const published = versions.publish();
        for (let i = random(10); i > 0; i--) {
          const ordinal = versions.next();
          const vector = vectorOf(random, 5, isSigned);
          records.set(ordinal, vector);
          index.add(ordinal, vector.indices, vector.values);
        }
        const descriptor = posted(index.shared);
        const queries = [0, 0, 0.3].map((threshold) => ({
          query: vectorOf(random, 1 + random(8), isSigned),
          k: 1 + random(30),
          threshold,
        }));
        const found = queries.map(({ query, k, threshold }) =>
          asMap(index.reader.search(query, k, threshold, published.visible)),
        );
        const reading = {
          ...published,
          descriptor,
          queries,
          found,
          reader: SparseReader.attach(descriptor, 1),
        };
        readings.push(reading);
        checkReading(reading, reading.reader);
        const ordinals = [...found[0].keys()];
        expect(explained(reading.reader, ordinals, queries[0].query)).toEqual(
          explained(index.reader, ordinals, queries[0].query),
        );
        const allowed = OrdinalBitmap.of(Uint32Array.from(live.filter(() => random(3) === 0)).sort());
        expect(asMap(reading.reader.search(queries[0].query, 5, 0, reading.visible, allowed))).toEqual(
          asMap(index.reader.search(queries[0].query, 5, 0, reading.visible, allowed)),
        );
        versions.reclaim(random(2) === 0 ? random(50) : undefined);
        while (random(4) !== 0 && index.tidy(2_000));
        // Every pinned version is read again, by its first reader and by one that is attached now.
        for (const old of readings) {
          checkReading(old, old.reader);
          if (random(3) === 0)
            checkReading(old, SparseReader.attach(old.descriptor as typeof index.shared, 1));
        }
        while (readings.length > random(6)) versions.release(readings.splice(random(readings.length), 1)[0]);
        index.check();
      }
    },
  );
});
