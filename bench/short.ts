// How fast is Quiver, in short?
//
//   npm run bench short                   the short form of the others, with fewer rows, queries and rivals
//   npm run bench short -- --only text    some of dense, filters, sparse, shapes, text, growth, rest and servers
//
// Some half an hour. Engines are asked the same queries in turns, so the ratios are those of one moment on one machine.

import { join } from "node:path";
import { missing } from "./dense/data.ts";
import { growing } from "./growing.ts";
import type { RestPlan } from "./rest/main.ts";
import { serverKinds } from "./servers/kinds.ts";
import { measure as measureServers } from "./servers/measure.ts";
import { measuredAside } from "./shared/child.ts";
import { installRivals } from "./shared/install.ts";
import { measure, type Plan } from "./shared/measure.ts";
import { readOptions } from "./shared/options.ts";
import { publish } from "./shared/publish.ts";
import type { Measured } from "./shared/results.ts";
import { measureShapes } from "./sparse/ratios.ts";
import { subjectNamed } from "./subjects.ts";

const rounds = 3;
const queryCount = 200;

const keep = (key: string, measured: Measured): void => publish("short", { ...measured, key }, isKept);

/** Searches in process, without the engines that take too long to build or to ask. */
const searches: Readonly<Record<string, Omit<Plan, "rounds">>> = {
  dense: {
    subject: "dense",
    set: "glove-cosine",
    engines: ["quiver-database", "quiver-u8", "hnswlib", "usearch-f32", "vectorlite", "zvec-int8"],
    efforts: [10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384],
    queryCount,
    rowsMax: 30_000,
    isOfWhole: true,
  },
  filters: {
    subject: "filters",
    set: "clusters",
    engines: ["quiver-database", "quiver-new", "hnswlib", "zvec", "sqlite-vec"],
    queryCount: 20,
    rowsMax: 10_000,
  },
  sparse: {
    subject: "sparse",
    set: "splade",
    engines: ["quiver-database", "quiver", "plain", "zvec-flat"],
    efforts: [0],
    queryCount,
    rowsMax: 50_000,
    isOfWhole: true,
  },
  text: {
    subject: "text",
    set: "words",
    engines: ["quiver-database", "quiver", "plain", "zvec", "sqlite"],
    queryCount,
    rowsMax: 50_000,
    isOfWhole: true,
  },
};

async function search(key: string, plan: Omit<Plan, "rounds">): Promise<void> {
  const why = subjectNamed(plan.subject).missing(plan.set);
  if (why !== undefined) console.log(`${plan.set}: ${why}`);
  else keep(key, await measure({ ...plan, rounds }));
}

/** The first steps of dense search. */
async function growth(): Promise<void> {
  const [{ name, steps, ...plan }] = growing;
  for (const rowsMax of steps.slice(0, 3))
    await search(`growth-${name}-${rowsMax}`, { ...plan, queryCount, rowsMax });
}

/** In a process of its own, whose servers are. */
async function rest(): Promise<void> {
  const plan = { requests: 500, rounds: 5, sizes: [2_000], warm: 20_000 };
  const file = join(import.meta.dirname, "rest", "main.ts");
  keep("rest", await measuredAside<RestPlan, Measured>(file, plan));
}

async function servers(): Promise<void> {
  const set = "glove-cosine";
  const why = missing(set);
  if (why !== undefined) return console.log(`${set}: ${why}`);
  const plan = { set, kinds: serverKinds, rounds, turnMs: 500, warmMs: 3_000, queryCount };
  for (const rowCount of [10_000, 50_000])
    keep(`servers-${set}-${rowCount}`, await measureServers({ ...plan, rowCount }));
}

const shapeNames = ["11k-44-topics", "11k-44-learned", "11k-120-plain", "scifact"];

const parts: Readonly<Record<string, () => Promise<void>>> = {
  ...Object.fromEntries(Object.entries(searches).map(([key, plan]) => [key, () => search(key, plan)])),
  shapes: () =>
    measureShapes(shapeNames, { rounds, queries: 60 }, (measured) =>
      keep(`shapes-${measured.key}`, measured),
    ),
  growth,
  rest,
  servers,
};

const allParts = Object.keys(parts).join(",");
const { values, isKept } = readOptions({ only: allParts }, {});
const reason = installRivals();
if (reason !== undefined) console.log(reason);
for (const name of values.only.split(",")) {
  if (!(name in parts)) throw new Error(`no part is called ${name}; there are ${allParts}`);
  await parts[name]();
}
