// How is one sparse set measured?

import { join } from "node:path";
import { measure as measureAll } from "../shared/measure.ts";
import { acceptedShare, PlainIndex } from "../shared/plain-index.ts";
import { whole } from "../shared/report.ts";
import type { SetResult } from "../shared/results.ts";
import { readSet, type SetName, type SparseSet, titles } from "./data.ts";
import { type EngineKind, k, type SparseVector } from "./engine.ts";
import { addRows, termsOf } from "./engines/plain.ts";

export type Plan = {
  readonly set: SetName;
  readonly engines: readonly EngineKind[];
  /** Quiver's thresholds, descending, so that recall ascends; the last is 0. */
  readonly thresholds: readonly number[];
  readonly rounds: number;
  readonly queryCount: number;
  /** For a trial: the first rows only. */
  readonly rowsMax?: number;
};

export function measure({
  set: name,
  engines,
  thresholds,
  rounds,
  queryCount,
  rowsMax,
}: Plan): Promise<SetResult> {
  const set = readSet(name, rowsMax);
  const queries = set.queries.slice(0, queryCount);
  const { truth, postingsPerQuery } = truthOf(set, queries);
  return measureAll({
    worker: join(import.meta.dirname, "worker.ts"),
    engines,
    set: name,
    title: titles[name],
    rowCount: set.rows.length,
    rowsMax,
    queryCount: queries.length,
    passes: 1,
    rounds,
    k,
    efforts: thresholds,
    facts: `${entriesEach(set.rows)} entries a row, ${entriesEach(queries)} a query, ${whole(postingsPerQuery)} postings a query`,
    postingsPerQuery,
    recall: (found) => acceptedShare(found, truth, k),
  });
}

function entriesEach(vectors: readonly SparseVector[]): string {
  const all = vectors.reduce((sum, { indices }) => sum + indices.length, 0);
  return String(Number((all / vectors.length).toFixed(1)));
}

/** Computed by the exact reference implementation. */
function truthOf({ rows }: SparseSet, queries: readonly SparseVector[]) {
  const twin = new PlainIndex(rows.length);
  addRows(twin, rows, 0);
  twin.finish();
  const terms = queries.map(termsOf);
  const postings = terms.flat().reduce((sum, { list }) => sum + twin.lengthOf(list), 0);
  return {
    truth: terms.map((each) => twin.accepted(each, k)),
    postingsPerQuery: postings / queries.length,
  };
}
