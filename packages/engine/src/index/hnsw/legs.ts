// How are the dense legs of a request's queries searched?
//
// Each separately, except scans of all vectors, which handle several queries at a time, so that each vector is read only once for them.

import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import type { Candidates } from "../contract.ts";
import type { ChosenWay, Leg, LegOptions, LegSearches, SearchedVersion } from "../kind.ts";
import { OrdinalBitmap } from "../ordinal-bitmap.ts";
import { stepsOf } from "./exact-search.ts";
import type { HnswReader } from "./hnsw-search.ts";

export interface DenseLeg extends Leg {
  readonly kind: "dense";
  readonly vector: Float32Array;
}

const noneAllowed = OrdinalBitmap.of(new Uint32Array(0));

/** Maximum number of queries in one pass over all vectors, and of their results together, which are sorted in one step. */
const exactQueriesMax = 64;
const exactResultsMax = 20_000;

/** Number of queries for k results each in one pass over all vectors. */
export function exactQueriesFor(k: number): number {
  return Math.max(1, Math.min(exactQueriesMax, Math.floor(exactResultsMax / k)));
}

export class DenseLegs implements LegSearches {
  readonly #reader: HnswReader;
  readonly #legs: readonly DenseLeg[];
  readonly #version: SearchedVersion;
  readonly #options: LegOptions;
  /** Exact results so far, by leg. */
  readonly #exact = new Map<number, Candidates>();

  constructor(reader: HnswReader, legs: readonly DenseLeg[], version: SearchedVersion, options: LegOptions) {
    this.#reader = reader;
    this.#legs = legs;
    this.#version = version;
    this.#options = options;
  }

  *search(leg: number, k: number): Steps<Candidates> {
    if (this.#options.isExact) return yield* this.#exactly(leg, k);
    const { ef, allowed } = this.#options;
    const options = { ef, allowed, vectorOf: (ordinal: number) => this.#version.vectorOf(ordinal) };
    const visible = () => this.#version.visible();
    return (yield* stepsOf(this.#reader.begin(this.#legs[leg].vector, k, visible, options)))[0];
  }

  chosen(_leg: number, k: number): ChosenWay {
    const { allowed, ef } = this.#options;
    const { graphUs, allowedUs, allUs } = this.#reader.estimate(allowed ?? noneAllowed, k, ef);
    const ways = { "follow links": graphUs, "scan matching vectors": allowedUs, "scan all vectors": allUs };
    return { way: this.#reader.chosen, estimates: ways };
  }

  *#exactly(leg: number, k: number): Steps<Candidates> {
    if (!this.#exact.has(leg)) {
      const group = this.#legs.slice(leg, leg + exactQueriesFor(k));
      const search = this.#reader.beginExactly(
        group.map(({ vector }) => vector),
        k,
        () => this.#version.visible(),
        (ordinal) => this.#version.vectorOf(ordinal),
        this.#options.allowed,
      );
      for (const [i, answer] of (yield* stepsOf(search)).entries()) this.#exact.set(leg + i, answer);
    }
    const answer = this.#exact.get(leg);
    invariant(answer !== undefined, `the exact answer to leg ${leg} is missing`);
    this.#exact.delete(leg);
    return answer;
  }

  /** A distance has no parts. */
  *explain(_leg: number, ordinals: readonly number[]): Steps<readonly object[]> {
    yield;
    return ordinals.map(() => ({}));
  }
}
