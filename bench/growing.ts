// What grows, with which engines, and to which sizes?
//
// The whole engine first, its index alone second, and a rival; each kind of search has the sets and measurements of its own benchmark. The
// first rows of a set are a sample of the whole, because its rows are drawn independently, and the queries are the same at each step.

import type { Plan } from "./shared/measure.ts";

type Line = Omit<Plan, "rowsMax"> & {
  /** As in `--lines`. */
  readonly name: string;
  /** Numbers of rows, ascending. */
  readonly steps: readonly number[];
};

const steps = [10_000, 30_000, 100_000, 300_000, 1_000_000];
const efforts = [10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];
const plan = { rounds: 3, queryCount: 200 };

export const growing: readonly Line[] = [
  {
    name: "dense",
    subject: "dense",
    set: "clusters100-1m",
    engines: ["quiver-database", "quiver-u8", "hnswlib"],
    efforts,
    steps,
    ...plan,
  },
  {
    name: "dense-words",
    subject: "dense",
    set: "words100-1m",
    engines: ["quiver-database", "quiver-u8", "hnswlib", "zvec-int8"],
    efforts,
    steps,
    ...plan,
  },
  {
    name: "text",
    subject: "text",
    set: "words",
    engines: ["quiver-database", "quiver", "plain"],
    steps,
    ...plan,
  },
  {
    name: "sparse",
    subject: "sparse",
    set: "splade",
    engines: ["quiver-database", "quiver", "plain"],
    efforts: [0],
    steps,
    ...plan,
  },
  {
    name: "dense-index",
    subject: "dense",
    set: "clusters128-1m",
    engines: ["quiver-u8"],
    efforts,
    steps,
    rounds: 3,
    queryCount: 400,
  },
  {
    name: "text-index",
    subject: "text",
    set: "words",
    engines: ["quiver", "plain"],
    steps: [10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000],
    rounds: 5,
    queryCount: 500,
  },
];
