// How are the sparse legs of a request's queries searched?

import type { Steps } from "../../base/steps.ts";
import type { Candidates } from "../contract.ts";
import { chosenWay } from "../inverted/query.ts";
import type { ChosenWay, Leg, LegOptions, LegSearches, SearchedVersion } from "../kind.ts";
import type { SparseReader } from "./sparse-reader.ts";

/** What one leg of a query asks. */
export interface SparseLeg extends Leg {
  readonly kind: "sparse";
  /** Ascending. */
  readonly indices: Uint32Array;
  readonly values: Float32Array;
  /** Relative to the greatest posting, at most 1: smaller postings do not count when candidates are selected. */
  readonly threshold: number;
}

export class SparseLegs implements LegSearches {
  readonly #reader: SparseReader;
  readonly #legs: readonly SparseLeg[];
  readonly #version: SearchedVersion;
  readonly #options: LegOptions;

  constructor(
    reader: SparseReader,
    legs: readonly SparseLeg[],
    version: SearchedVersion,
    options: LegOptions,
  ) {
    this.#reader = reader;
    this.#legs = legs;
    this.#version = version;
    this.#options = options;
  }

  search(leg: number, k: number): Steps<Candidates> {
    const of = this.#legs[leg];
    // The threshold is a share of the greatest posting, and that can be of a record that the caller does not see.
    const threshold = this.#options.ofKey ? 0 : of.threshold;
    return this.#reader.searchInSteps(of, k, threshold, () => this.#version.visible(), this.#options.allowed);
  }

  chosen(leg: number): ChosenWay {
    const count = this.#options.allowed?.count ?? 0;
    return chosenWay(this.#reader.estimate(this.#legs[leg], count), this.#legs[leg].indices.length, count);
  }

  *explain(leg: number, ordinals: readonly number[], onMatch: () => void): Steps<readonly object[]> {
    const explained = ordinals.map(() => ({ matches: [] as object[] }));
    yield* this.#reader.explain(ordinals, this.#legs[leg], (at, match) => {
      onMatch();
      explained[at].matches.push({
        index: match.dimension,
        query_value: match.queryWeight,
        stored_value: match.weight,
        product: match.product,
      });
    });
    return explained;
  }
}
