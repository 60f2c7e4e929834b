// How is one text set measured?

import { join } from "node:path";
import { measure as measureAll } from "../shared/measure.ts";
import { acceptedShare } from "../shared/plain-index.ts";
import { whole } from "../shared/report.ts";
import type { SetResult } from "../shared/results.ts";
import { readSet, type SetName, type TextSet, titles } from "./data.ts";
import { type EngineKind, k } from "./engine.ts";
import { PlainTextIndex } from "./engines/plain.ts";

export type Plan = {
  readonly set: SetName;
  readonly engines: readonly EngineKind[];
  readonly rounds: number;
  readonly queryCount: number;
  /** Number of passages, possibly more than the dictionaries have. */
  readonly rowsMax?: number;
};

export function measure({ set: name, engines, rounds, queryCount, rowsMax }: Plan): Promise<SetResult> {
  const set = readSet(name, rowsMax);
  const queries = set.queries.slice(0, queryCount);
  const { rows } = set;
  const { truth, termsPerRow, postingsPerQuery } = truthOf(set, queries);
  return measureAll({
    worker: join(import.meta.dirname, "worker.ts"),
    engines,
    set: name,
    title: titles[name],
    rowCount: rows.length,
    rowsMax,
    queryCount: queries.length,
    passes: 1,
    rounds,
    k,
    efforts: [0],
    facts: `${termsPerRow.toFixed(1)} terms a passage, ${whole(postingsPerQuery)} postings a query`,
    postingsPerQuery,
    recall: (found) => acceptedShare(found, truth, k),
  });
}

/** Computed by the exact reference implementation. */
function truthOf({ language, rows }: TextSet, queries: readonly string[]) {
  const twin = new PlainTextIndex(language, rows.length);
  rows.forEach((row, i) => void twin.add(i, row));
  twin.finish();
  const terms = queries.map((query) => twin.termsOf(query));
  const postings = terms.flat().reduce((sum, { list }) => sum + twin.lengthOf(list), 0);
  return {
    truth: terms.map((each) => twin.accepted(each, k)),
    termsPerRow: twin.totalLength / rows.length,
    postingsPerQuery: postings / queries.length,
  };
}
