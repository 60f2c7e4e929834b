// Is an index that has replaced every vector three times over as good as a fresh one?
//
//   npm run bench dense-lasting [-- --rows 20000 --replacements 3]
//
// Vectors of glove100-100k (cosine), which are shuffled first, are replaced in random order, each time by others of the set; searches find
// the latest vectors. Then the index runs its maintenance, as in an idle collection. The changed index and one built from the same vectors
// answer the same queries alternately: CPU time per query, median of many turns, at equal beam width and at equal recall.

import "../../packages/engine/src/process/node-host.ts";
import { randomNumbers } from "@quiverdb/kernels/random";
import { HnswIndex } from "../../packages/engine/src/index/dense/hnsw-index.ts";
import { bytesOfFloats } from "../../packages/engine/src/vector/floats.ts";
import { m } from "../engines/engine.ts";
import { at, recallOf } from "../shared/figures.ts";
import { readOptions } from "../shared/options.ts";
import { publish } from "../shared/publish.ts";
import { compare, inProcess, usOf } from "../shared/turns.ts";
import { missing, readSet } from "./data.ts";

const { values, isKept } = readOptions({}, { rows: "20000", replacements: "3", turns: "31" });
const [count, replacements, turns] = [values.rows, values.replacements, values.turns].map(Number);
const name = "glove-cosine";
const k = 10;
const queryCount = 500;
const beams = [10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];

const reason = missing(name);
if (reason !== undefined) {
  console.log(`skipped: ${reason}`);
  process.exit(0);
}
const set = readSet(name);
const queries = set.queries.slice(0, queryCount);
const next = randomNumbers(7);

const make = () =>
  new HnswIndex({ dimension: set.dimension, metric: set.metric, dataType: "u8", m, efConstruction: 200 });

const rows = [...set.rows];
for (let i = rows.length - 1; i > 0; i--) {
  const other = Math.floor(next() * (i + 1));
  [rows[i], rows[other]] = [rows[other], rows[i]];
}

/** An index, and the row of each of its ordinals. */
type Subject = { readonly index: HnswIndex; readonly rowOf: number[] };

function add({ index, rowOf }: Subject, row: number): void {
  index.add(rowOf.length, bytesOfFloats(rows[row]));
  rowOf.push(row);
}

const changed: Subject = { index: make(), rowOf: [] };
for (let i = 0; i < count; i++) add(changed, i);
let living = Array.from({ length: count }, (_, i) => i);
for (let round = 1; round <= replacements; round++) {
  // Each round uses other rows of the set, and the last round those of the start.
  const first = round === replacements ? 0 : (round * count) % (rows.length - count + 1);
  const order = living.map((ordinal) => ({ ordinal, by: next() })).sort((a, b) => a.by - b.by);
  const replaced: number[] = [];
  for (const [i, { ordinal }] of order.entries()) {
    changed.index.retire(ordinal);
    replaced.push(changed.rowOf.length);
    add(changed, first + i);
    changed.index.remove(ordinal);
  }
  living = replaced;
  console.log(`replaced ${round} times`);
}
changed.index.tidy();
const fresh: Subject = { index: make(), rowOf: [] };
for (const ordinal of living) add(fresh, changed.rowOf[ordinal]);
const truth = queries.map((query) =>
  Int32Array.from(fresh.index.reader.searchExactly(query, k, null).ordinals, (o) => fresh.rowOf[o]),
);

const subjects = [fresh, changed];
const searchOf = ({ index, rowOf }: Subject, ef: number) =>
  inProcess((i) =>
    Array.from(index.reader.search(queries[i], k, { ef }).ordinals, (ordinal) => rowOf[ordinal]),
  );

/** By index, then by beam. */
const curves: { recall: number; cpuMs: number }[][] = [[], []];
for (const ef of beams) {
  const players = subjects.map((subject) => searchOf(subject, ef));
  await compare(players, { rounds: turns, warmUps: 0, queries: queryCount, k });
  for (const [i, player] of players.entries())
    curves[i].push({ recall: recallOf(player.ids, truth, k), cpuMs: usOf(player) / 1_000 });
}

const row = (figure: string, [a, b]: readonly (number | undefined)[]) =>
  a === undefined || b === undefined ? [] : [{ figure, fresh: a, replaced: b, ratio: b / a }];
const atBeam = (ef: number) => curves.map((curve) => curve[beams.indexOf(ef)]);
const measured = [
  ...[32, 128].flatMap((ef) => [
    ...row(
      `recall@${k} with a beam of ${ef}`,
      atBeam(ef).map(({ recall }) => recall),
    ),
    ...row(
      `CPU ms per query with a beam of ${ef}`,
      atBeam(ef).map(({ cpuMs }) => cpuMs),
    ),
  ]),
  ...[0.9, 0.95, 0.99].flatMap((recall) =>
    row(
      `CPU ms per query at recall ${recall}`,
      curves.map((curve) => at(recall, curve, ({ cpuMs }) => cpuMs)?.value),
    ),
  ),
  ...row(
    "bytes of codes and links",
    subjects.map(({ index }) => index.graphBytes),
  ),
];
publish(
  "dense-lasting",
  {
    key: String(count),
    title: `After every vector was replaced ${replacements} times`,
    options: { rows: count, replacements, turns, queries: queryCount, set: name },
    rows: measured,
  },
  isKept,
);
