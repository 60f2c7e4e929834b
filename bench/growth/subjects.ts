// What grows, and with which engines?
//
// The whole engine first, its index alone second, and a rival; each kind of search has the sets and measurements of its own benchmark. The
// first rows of a set are a sample of the whole, because its rows are drawn independently, and the queries are the same at each step.

import * as denseData from "../dense/data.ts";
import { engineKinds as denseEngines } from "../dense/engines.ts";
import { measure as measureDense } from "../dense/measure.ts";
import { kindNamed } from "../shared/engine.ts";
import type { SetResult } from "../shared/results.ts";
import { engineKinds as sparseEngines } from "../sparse/engines.ts";
import { measure as measureSparse } from "../sparse/measure.ts";
import * as textData from "../text/data.ts";
import { engineKinds as textEngines } from "../text/engines.ts";
import { measure as measureText } from "../text/measure.ts";

export type Plan = {
  /** As in `--engines`; undefined: those of the subject. */
  readonly engines?: readonly string[];
  readonly rounds: number;
  readonly queryCount: number;
  readonly rowsMax: number;
};

export type Subject = {
  /** As in `--subjects`. */
  readonly name: string;
  readonly title: string;
  /** One of the rows, in the plural. */
  readonly rows: string;
  /** At which recalls costs are compared; 1: the engines are exact. */
  readonly recalls: readonly number[];
  /** Numbers of rows, ascending. */
  readonly steps: readonly number[];
  /** Why it cannot be measured here; undefined if it can. */
  missing(): string | undefined;
  measure(plan: Plan): Promise<SetResult>;
};

const named = <Kind extends { readonly name: string }>(
  kinds: readonly Kind[],
  names: readonly string[],
): Kind[] => names.map((name) => kindNamed(kinds, name));

const steps = [10_000, 30_000, 100_000, 300_000, 1_000_000];

const denseSet = "clusters100-1m";
const beams = [10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];

export const subjects: readonly Subject[] = [
  {
    name: "dense",
    title: "Dense search of 100 numbers",
    rows: "vectors",
    recalls: [0.95, 0.99],
    steps,
    missing: () => denseData.missing(denseSet),
    measure: ({ engines = ["quiver-database", "quiver-u8", "hnswlib"], ...plan }) =>
      measureDense({ set: denseSet, engines: named(denseEngines, engines), beams, ...plan }),
  },
  {
    name: "text",
    title: "Text search",
    rows: "passages",
    recalls: [1],
    steps,
    missing: textData.missing,
    measure: ({ engines = ["quiver-database", "quiver", "plain"], ...plan }) =>
      measureText({ set: "words", engines: named(textEngines, engines), ...plan }),
  },
  {
    name: "sparse",
    title: "Sparse search, exact",
    rows: "vectors",
    recalls: [1],
    steps,
    missing: () => undefined,
    measure: ({ engines = ["quiver-database", "quiver", "plain"], ...plan }) =>
      measureSparse({ set: "splade", engines: named(sparseEngines, engines), thresholds: [0], ...plan }),
  },
];
