// How many times faster than a plain loop is a sparse search, whatever the data are like?
//
//   npm run bench sparse-shapes                               all shapes (shapes.ts); writes docs/benchmarks-sparse-shapes.md
//   npm run bench sparse-shapes -- --shapes 11k-44-learned    some shapes, only printed
//
//   --shapes NAME,...  --rounds 5  --queries 100
//
// The plain loop, the index alone and the whole engine are in one process for each shape and take turns, so that what else runs on the
// machine slows all of them down. In each turn all queries are asked once. Figures are medians of the turns after the first two.

import "../../packages/engine/src/process/node-host.ts";
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { measuredAside } from "../shared/aside.ts";
import { missingFolder } from "../shared/files.ts";
import { acceptedShare, PlainIndex } from "../shared/plain-index.ts";
import { ownCpuMs } from "../shared/quiet.ts";
import { writeDocument } from "../shared/report.ts";
import { median } from "../shared/results.ts";
import { k, type SparseVector } from "./engine.ts";
import { addRows, termsOf } from "./engines/plain.ts";
import { quiver, quiverDatabase } from "./engines/quiver.ts";
import { pageOf, type Ratios, sectionOf } from "./ratios-report.ts";
import { shapeNamed, shapes } from "./shapes.ts";

export type Plan = { readonly rounds: number; readonly queries: number };

/** By ascending recall; 0 is the exact search. */
const thresholds = [0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0];
const recallWanted = 0.95;
const warmUps = 2;
const rowsAtOnce = 10_000;

/** The ids that a search finds. */
type Search = (query: number) => ArrayLike<number | string> | Promise<ArrayLike<number | string>>;

/** What takes part: the microseconds of each turn, and what was found in the last. */
type Player = { readonly search: Search; readonly us: number[]; found: Int32Array };

async function turn(player: Player, queries: number): Promise<void> {
  const all: ArrayLike<number | string>[] = new Array(queries);
  const before = ownCpuMs();
  for (let i = 0; i < queries; i++) {
    const ids = player.search(i);
    all[i] = ids instanceof Promise ? await ids : ids;
  }
  player.us.push(((ownCpuMs() - before) * 1_000) / queries);
  player.found = new Int32Array(queries * k).fill(-1);
  for (const [i, ids] of all.entries())
    for (let j = 0; j < Math.min(k, ids.length); j++) player.found[i * k + j] = Number(ids[j]);
}

const usOf = ({ us }: Player): number => median(us.slice(warmUps));

/** Measures one shape in this process. */
async function measure(name: string, { rounds, queries: queryCount }: Plan): Promise<Ratios> {
  const shape = shapeNamed(name);
  const rows = shape.rows();
  const directory = mkdtempSync(join(tmpdir(), "quiver-bench-"));
  try {
    const plain = new PlainIndex(rows.length);
    addRows(plain, rows, 0);
    plain.finish();
    const [whole, index] = await Promise.all(
      [quiverDatabase, quiver].map(async (kind) => {
        const engine = await kind.open({ count: rows.length, directory });
        for (let at = 0; at < rows.length; at += rowsAtOnce)
          await engine.add(rows.slice(at, at + rowsAtOnce), at);
        await engine.finish?.();
        await engine.settle?.();
        return {
          prepare: (query: SparseVector) => engine.prepare?.(query) ?? query,
          search: engine.search as (query: unknown, k: number, effort: number) => ReturnType<Search>,
        };
      }),
    );
    const cells: Ratios["cells"][number][] = [];
    for (const [length, queries] of shape.queries(queryCount)) {
      const terms = queries.map(termsOf);
      const player = (search: Search): Player => ({ search, us: [], found: new Int32Array(0) });
      const loop = player((i) => plain.search(terms[i], k));
      const players = [whole, index].map(({ prepare, search }) => {
        const prepared = queries.map(prepare);
        return thresholds.map((threshold) => player((i) => search(prepared[i], k, threshold)));
      });
      const all = [loop, ...players.flat()];
      for (let round = 0; round < warmUps + rounds; round++)
        for (const each of round % 2 === 0 ? all : all.toReversed()) await turn(each, queries.length);
      const truth = terms.map((each) => plain.accepted(each, k));
      const [wholeUs, indexUs] = players.map((each) => {
        const exact = each[each.length - 1];
        if (acceptedShare(exact.found, truth, k) !== 1)
          throw new Error(`${name}: an exact search of ${length} dimensions misses some of the best`);
        const reaching = each.filter(({ found }) => acceptedShare(found, truth, k) >= recallWanted);
        return { exact: usOf(exact), atRecall: Math.min(...reaching.map(usOf)) };
      });
      const postings = terms.flat().reduce((sum, { list }) => sum + plain.lengthOf(list), 0);
      cells.push({ length, postings: postings / queries.length, plainUs: usOf(loop), wholeUs, indexUs });
    }
    return { name, title: shape.title, cells };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Measures shapes, each in a process of its own. A shape whose data are missing is left out. */
export async function measureShapes(names: readonly string[], plan: Plan): Promise<Ratios[]> {
  const measured: Ratios[] = [];
  for (const name of names) {
    const why = name === "scifact" ? missingFolder("scifact") : undefined;
    if (why !== undefined) {
      console.log(`${name}: ${why}`);
      continue;
    }
    measured.push(await measuredAside<Ratios>(import.meta.filename, name, plan));
    console.log(sectionOf(measured[measured.length - 1]));
  }
  return measured;
}

if (import.meta.main) {
  const allNames = shapes.map(({ name }) => name).join(",");
  const { values } = parseArgs({
    options: {
      shapes: { type: "string", default: allNames },
      rounds: { type: "string", default: "5" },
      queries: { type: "string", default: "100" },
      only: { type: "string" },
      plan: { type: "string", default: "" },
    },
  });
  if (values.only !== undefined) {
    const ratios = await measure(values.only, JSON.parse(values.plan));
    process.send?.(ratios, () => process.exit(0));
  } else {
    const plan = { rounds: Number(values.rounds), queries: Number(values.queries) };
    const measured = await measureShapes(values.shapes.split(","), plan);
    if (values.shapes === allNames)
      writeDocument(
        "benchmarks-sparse-shapes.md",
        pageOf(measured, { ...plan, processor: cpus()[0]?.model ?? "unknown" }),
      );
  }
}
