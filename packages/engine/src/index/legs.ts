// What is one leg of a query: what one index is asked for?

import type { Clause } from "../text/operators.ts";
import type { Leg } from "./kind.ts";

export interface DenseLeg extends Leg {
  readonly kind: "dense";
  readonly vector: Float32Array;
}

export interface SparseLeg extends Leg {
  readonly kind: "sparse";
  /** Ascending. */
  readonly indices: Uint32Array;
  readonly values: Float32Array;
  /** Relative to the greatest posting, at most 1: smaller postings do not count when candidates are selected. */
  readonly threshold: number;
}

export interface TextLeg extends Leg {
  readonly kind: "tf-idf";
  readonly text: string;
  /** The parsed operators of the text; null if it is plain. */
  readonly clauses: readonly Clause[] | null;
  /** The text's place in the request. */
  readonly path: string;
}
