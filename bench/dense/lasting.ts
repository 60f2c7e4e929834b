// Is an index that has replaced every vector three times over as good as a fresh one?
//
//   npm run bench dense-lasting [-- --rows 20000 --rounds 3]
//
// Vectors of glove100-100k (cosine), which are shuffled first, are replaced in random order, each time by others of the set; searches find
// the latest vectors. Then the index runs its maintenance, as in an idle collection. The changed index and one built from the same vectors
// answer the same queries alternately: CPU time per query, median of many turns, at equal beam width and at equal recall. Written to
// docs/benchmarks-dense-lasting.md.

import "../../packages/engine/src/process/node-host.ts";
import { parseArgs } from "node:util";
import { randomNumbers } from "@quiverdb/kernels/random";
import { HnswIndex } from "../../packages/engine/src/index/dense/hnsw-index.ts";
import { bytesOfFloats } from "../../packages/engine/src/vector/floats.ts";
import { head, line, whole, writeDocument } from "../shared/report.ts";
import { at, median } from "../shared/results.ts";
import { missing, readSet } from "./data.ts";
import { efConstruction, m } from "./engine.ts";

const { values } = parseArgs({
  options: { rows: { type: "string", default: "20000" }, rounds: { type: "string", default: "3" } },
});
const count = Number(values.rows);
const rounds = Number(values.rounds);
const name = "glove-cosine";
const k = 10;
const turns = 31;
const beams = [10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];

const reason = missing(name);
if (reason !== undefined) {
  console.log(`skipped: ${reason}`);
  process.exit(0);
}
const set = readSet(name);
const queries = set.queries.slice(0, 500);
const next = randomNumbers(7);

const make = () =>
  new HnswIndex({ dimension: set.dimension, metric: set.metric, dataType: "u8", m, efConstruction });

const rows = [...set.rows];
for (let i = rows.length - 1; i > 0; i--) {
  const other = Math.floor(next() * (i + 1));
  [rows[i], rows[other]] = [rows[other], rows[i]];
}

/** The row of each ordinal. */
const rowOf: number[] = [];

function add(index: HnswIndex, row: number): void {
  index.add(rowOf.length, bytesOfFloats(rows[row]));
  rowOf.push(row);
}

const changed = make();
for (let i = 0; i < count; i++) add(changed, i);
let living = Array.from({ length: count }, (_, i) => i);
for (let round = 1; round <= rounds; round++) {
  // Each round uses other rows of the set, and the last round those of the start.
  const first = round === rounds ? 0 : (round * count) % (rows.length - count + 1);
  const order = living.map((ordinal) => ({ ordinal, by: next() })).sort((a, b) => a.by - b.by);
  const replaced: number[] = [];
  for (const [i, { ordinal }] of order.entries()) {
    changed.retire(ordinal);
    replaced.push(rowOf.length);
    add(changed, first + i);
    changed.remove(ordinal);
  }
  living = replaced;
  console.log(`replaced ${round} times`);
}
changed.tidy();
const fresh = make();
const freshRows: number[] = [];
for (const ordinal of living) {
  fresh.add(freshRows.length, bytesOfFloats(rows[rowOf[ordinal]]));
  freshRows.push(rowOf[ordinal]);
}
const truths = queries.map(
  (query) => new Set(fresh.reader.searchExactly(query, k, null).ordinals.map((o) => freshRows[o])),
);

type Point = { readonly recall: number; readonly cpuMs: number };

type Subject = { readonly index: HnswIndex; readonly rows: readonly number[] };

function ask({ index, rows }: Subject, ef: number): { recall: number; cpuMs: number } {
  const begin = process.cpuUsage();
  const found = queries.map((query) => index.reader.search(query, k, { ef }).ordinals);
  const { user, system } = process.cpuUsage(begin);
  let met = 0;
  for (const [i, ordinals] of found.entries())
    for (const ordinal of ordinals) if (truths[i].has(rows[ordinal])) met++;
  return { recall: met / (k * queries.length), cpuMs: (user + system) / 1_000 / queries.length };
}

const subjects: Subject[] = [
  { index: fresh, rows: freshRows },
  { index: changed, rows: rowOf },
];
/** By index, then by beam. */
const curves: Point[][] = [[], []];
for (const ef of beams) {
  const times: number[][] = [[], []];
  const recalls = [0, 0];
  for (let turn = 0; turn < turns; turn++)
    for (const [i, subject] of subjects.entries()) {
      const { recall, cpuMs } = ask(subject, ef);
      recalls[i] = recall;
      times[i].push(cpuMs);
    }
  for (const i of [0, 1]) curves[i].push({ recall: recalls[i], cpuMs: median(times[i]) });
}
const cost = (curve: readonly Point[], recall: number) => at(recall, curve, (point) => point.cpuMs)?.value;
const targets = [0.9, 0.95, 0.99].flatMap((recall) => {
  const [a, b] = curves.map((curve) => cost(curve, recall));
  if (a === undefined || b === undefined) return [];
  return [line([`CPU ms per query at recall ${recall}`, a.toFixed(4), b.toFixed(4), (b / a).toFixed(3)])];
});
const bytes = subjects.map(({ index }) => index.graphBytes);
const atBeams = [32, 128].flatMap((ef) => {
  const [a, b] = curves.map((curve) => curve[beams.indexOf(ef)]);
  return [
    line([
      `recall@${k} with a beam of ${ef}`,
      a.recall.toFixed(4),
      b.recall.toFixed(4),
      (b.recall / a.recall).toFixed(3),
    ]),
    line([
      `CPU ms per query with a beam of ${ef}`,
      a.cpuMs.toFixed(4),
      b.cpuMs.toFixed(4),
      (b.cpuMs / a.cpuMs).toFixed(3),
    ]),
  ];
});
const text = `# After every vector was replaced ${rounds} times

Written by \`npm run bench dense-lasting\`: ${whole(count)} vectors of glove100-100k (cosine), each replaced ${rounds} times in random order, against an index that was
built from the same vectors; one thread, median of ${turns} turns of ${queries.length} queries.

${[head(["", "fresh", "replaced", "ratio"]), ...atBeams, ...targets, line(["bytes of codes and links", whole(bytes[0]), whole(bytes[1]), (bytes[1] / bytes[0]).toFixed(3)])].join("\n")}
`;
console.log(text);
if (count === 20_000 && rounds === 3) writeDocument("benchmarks-dense-lasting.md", text);
