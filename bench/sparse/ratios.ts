// How many times faster than a plain loop is a sparse search, whatever the data are like?
//
//   npm run bench sparse-shapes                               all shapes (shapes.ts)
//   npm run bench sparse-shapes -- --shapes 11k-44-learned    some shapes
//
//   --rounds 5  --queries 100
//
// The plain loop, the index alone and the whole engine are in one process for each shape and take turns. "Us@0.95" is the least cost of all
// values of `early_terminate_threshold`, 0 included, with which at least 0.95 of the ten were found; "Times" are multiples of the loop's speed.

import "../../packages/engine/src/process/node-host.ts";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Item } from "../engines/engine.ts";
import { openTwin } from "../engines/plain.ts";
import { quiver, sparseAlone } from "../engines/quiver.ts";
import { answerAside, measuredAside } from "../shared/child.ts";
import { missingFolder } from "../shared/files.ts";
import { readOptions } from "../shared/options.ts";
import { acceptedShare } from "../shared/plain-index.ts";
import { publish } from "../shared/publish.ts";
import type { Measured, Row } from "../shared/results.ts";
import { compare, inProcess, usOf } from "../shared/turns.ts";
import { shapeNamed, shapeOf, shapes } from "./shapes.ts";

type Plan = { readonly name: string; readonly rounds: number; readonly queries: number };

const k = 10;
/** By ascending recall; 0 is the exact search. */
const thresholds = [0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0];
const recallWanted = 0.95;
const warmUps = 2;
const rowsAtOnce = 10_000;

/** Measures one shape in this process. */
async function measure({ name, rounds, queries: queryCount }: Plan): Promise<Measured> {
  const shape = shapeNamed(name);
  const rows: Item[] = shape.rows().map((terms) => ({ terms }));
  const directory = mkdtempSync(join(tmpdir(), "quiver-bench-"));
  const of = { ...shapeOf(rows.length), directory };
  try {
    const twin = openTwin(of);
    twin.add(rows, 0);
    twin.index.finish();
    const engines = await Promise.all(
      [quiver, sparseAlone].map(async (kind) => {
        const engine = await kind.open(of);
        for (let at = 0; at < rows.length; at += rowsAtOnce)
          await engine.add(rows.slice(at, at + rowsAtOnce), at);
        await engine.finish?.();
        await engine.settle?.();
        return engine;
      }),
    );
    const cells: Row[] = [];
    for (const [length, vectors] of shape.queries(queryCount)) {
      const queries: Item[] = vectors.map((terms) => ({ terms }));
      const terms = queries.map(twin.termsOf);
      const loop = inProcess((i) => twin.index.search(terms[i], k));
      const players = engines.map(({ prepare, search }) => {
        const prepared = queries.map((query) => prepare?.(query) ?? query);
        return thresholds.map((threshold) => inProcess((i) => search(prepared[i] as never, k, threshold)));
      });
      await compare([loop, ...players.flat()], { rounds, warmUps, queries: queries.length, k });
      const truth = terms.map((each) => twin.index.accepted(each, k));
      const postings = terms.flat().reduce((sum, { list }) => sum + twin.index.lengthOf(list), 0);
      const plainUs = usOf(loop);
      const row: Record<string, string | number> = {
        dimensions: length,
        postings: postings / queries.length,
        plainUs,
      };
      for (const [part, each] of [
        ["whole", players[0]],
        ["index", players[1]],
      ] as const) {
        const exact = each[each.length - 1];
        if (acceptedShare(exact.ids, truth, k) !== 1)
          throw new Error(`${name}: an exact search of ${length} dimensions misses some of the best`);
        const reaching = each.filter(({ ids }) => acceptedShare(ids, truth, k) >= recallWanted);
        const atRecall = Math.min(...reaching.map(usOf));
        Object.assign(row, {
          [`${part}Us`]: usOf(exact),
          [`${part}Times`]: plainUs / usOf(exact),
          [`${part}Us@${recallWanted}`]: atRecall,
          [`${part}Times@${recallWanted}`]: plainUs / atRecall,
        });
      }
      cells.push(row);
    }
    return { key: name, title: shape.title, options: { rounds, queries: queryCount }, rows: cells };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Measures shapes, each in a process of its own. A shape whose data are missing is left out. */
export async function measureShapes(
  names: readonly string[],
  plan: Omit<Plan, "name">,
  told: (measured: Measured) => void,
): Promise<void> {
  for (const name of names) {
    const why = name === "scifact" ? missingFolder("scifact") : undefined;
    if (why !== undefined) console.log(`${name}: ${why}`);
    else told(await measuredAside<Plan, Measured>(import.meta.filename, { name, ...plan }));
  }
}

if (import.meta.main && !(await answerAside(measure))) {
  const { values, isKept } = readOptions(
    { shapes: shapes.map(({ name }) => name).join(",") },
    { rounds: "5", queries: "100" },
  );
  const plan = { rounds: Number(values.rounds), queries: Number(values.queries) };
  await measureShapes(values.shapes.split(","), plan, (measured) =>
    publish("sparse-shapes", measured, isKept),
  );
}
