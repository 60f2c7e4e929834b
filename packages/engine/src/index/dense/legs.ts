// How are the dense legs of a request's queries searched?
//
// Each separately, except scans of all vectors, which handle several queries at a time, so that each vector is read only once for them.

import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import type { Candidates } from "../contract.ts";
import type { ChosenWay, Leg, LegAccount, LegOptions, LegSearches, SearchedVersion, Visit } from "../kind.ts";
import { OrdinalBitmap } from "../ordinal-bitmap.ts";
import { absent } from "../ordinal-map.ts";
import { lengthOf } from "./beam.ts";
import type { Walk } from "./graph-search.ts";
import type { DenseWay, GraphPass, HnswReader } from "./hnsw-search.ts";

/** What one leg of a query asks. */
export interface DenseLeg extends Leg {
  readonly kind: "dense";
  readonly vector: Float32Array;
}

/** Visited vectors that are read and scored at a step. */
const visitsPerStep = 64;

const noneAllowed = OrdinalBitmap.of(new Uint32Array(0));

/** Maximum number of queries in one pass over all vectors, and of their results together, which are sorted in one step. */
const exactQueriesMax = 64;
const exactResultsMax = 20_000;

/** Number of queries for k results each in one pass over all vectors. */
function exactQueriesFor(k: number): number {
  return Math.max(1, Math.min(exactQueriesMax, Math.floor(exactResultsMax / k)));
}

export class DenseLegs implements LegSearches {
  readonly #reader: HnswReader;
  readonly #legs: readonly DenseLeg[];
  readonly #version: SearchedVersion;
  readonly #options: LegOptions;
  /** Exact results so far, by leg. */
  readonly #exact = new Map<number, Candidates>();
  /** How the leg that was searched last was answered. Other requests search with the same reader meanwhile. */
  #way: DenseWay = "follow links";
  #pass: GraphPass | null = null;

  constructor(reader: HnswReader, legs: readonly DenseLeg[], version: SearchedVersion, options: LegOptions) {
    this.#reader = reader;
    this.#legs = legs;
    this.#version = version;
    this.#options = options;
  }

  *search(leg: number, k: number): Steps<Candidates> {
    if (this.#options.isExact) return yield* this.#exactly(leg, k);
    const { ef, mayCut, mayWiden, allowed, without } = this.#options;
    const vectorOf = (ordinal: number) => this.#version.vectorOf(ordinal);
    const options = { ef, mayCut, mayWiden, allowed, without, vectorOf };
    const visible = () => this.#version.visible();
    const search = this.#reader.begin(this.#legs[leg].vector, k, visible, options);
    this.#way = this.#reader.chosen;
    this.#pass = this.#reader.lastPass;
    return (yield* search)[0];
  }

  chosen(_leg: number, k: number): ChosenWay {
    const { allowed, ef } = this.#options;
    const { graphUs, allowedUs, allUs } = this.#reader.estimate(allowed ?? noneAllowed, k, ef);
    const ways = { "follow links": graphUs, "scan matching vectors": allowedUs, "scan all vectors": allUs };
    return { way: this.#way, estimates: ways };
  }

  *account(leg: number, visitsMax: number): Steps<LegAccount> {
    const { vectorCount, tailCount } = this.#reader;
    if (this.#pass === null) {
      const { allowed } = this.#options;
      // Without a graph to follow, all vectors are in the tail, which is scanned.
      const isListed = this.#way === "scan matching vectors" && allowed !== null;
      const compared = isListed ? allowed.count : vectorCount;
      const way: DenseWay = isListed ? this.#way : "scan all vectors";
      return { way, visited: compared, distances: compared };
    }
    const { vector } = this.#legs[leg];
    const walk = this.#reader.walk(vector, this.#pass, this.#options.allowed);
    return {
      way: this.#way,
      beam: lengthOf(this.#pass.beam),
      visited: walk.vectorKeys.length + tailCount,
      distances: walk.distances + tailCount,
      ...(visitsMax > 0 && { visits: yield* this.#visits(vector, walk, visitsMax) }),
    };
  }

  /** The first visits of a walk. */
  *#visits(vector: Float32Array, { vectorKeys, from }: Walk, visitsMax: number): Steps<Visit[]> {
    const visits: Visit[] = [];
    for (const [i, vectorKey] of vectorKeys.slice(0, visitsMax).entries()) {
      const vectorOf = (ordinal: number) => this.#version.vectorOf(ordinal);
      const record =
        vectorKey === absent
          ? null
          : this.#reader.recordOf(vector, vectorKey, this.#version.visible(), vectorOf);
      if (visits.push({ record, from: from[i] }) % visitsPerStep === 0) yield;
    }
    return visits;
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
      this.#way = this.#reader.chosen;
      this.#pass = null;
      for (const [i, answer] of (yield* search).entries()) this.#exact.set(leg + i, answer);
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
