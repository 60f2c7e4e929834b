// What are the statistics of the texts of some records?
//
// A caller that sees only some records must not learn of the others by scores. So N, the average length and the frequencies of terms are
// those of the records that it sees. They are counted where they are needed first, in steps, and remembered with the set of these records,
// which is made for one version and one filter (query/filter/set-cache.ts).

import type { Steps } from "../../base/steps.ts";
import type { Visible } from "../contract.ts";
import type { OrdinalBitmap } from "../ordinal-bitmap.ts";
import type { TextStatistics } from "./bm25.ts";
import type { WeightedTerm } from "./term-reader.ts";
import type { TextReader } from "./text-search.ts";

/** Terms whose frequencies are remembered for a set. */
const termsMax = 10_000;

type Counted = TextStatistics & { readonly frequencies: Map<string, number> };

/** By the set, and by the index. */
const known = new WeakMap<OrdinalBitmap, WeakMap<TextReader, Counted>>();

/**
 * The statistics of these records, with the frequencies of some terms.
 * @param rows made for the searched version; it can have ordinals that the version does not see
 * @param visible returns the visibility test; called again after each step
 */
export function* statisticsAmong(
  reader: TextReader,
  rows: OrdinalBitmap,
  terms: readonly WeightedTerm[],
  visible: () => Visible,
): Steps<TextStatistics> {
  const counted = yield* countedOf(reader, rows, visible);
  const frequencies = new Map<string, number>();
  for (const { term } of terms) {
    let df = frequencies.get(term) ?? counted.frequencies.get(term);
    if (df === undefined) {
      yield;
      df = reader.frequencyAmong(term, visible(), rows);
      if (counted.frequencies.size < termsMax) counted.frequencies.set(term, df);
    }
    frequencies.set(term, df);
  }
  return { documents: counted.documents, totalLength: counted.totalLength, frequencies };
}

function* countedOf(reader: TextReader, rows: OrdinalBitmap, visible: () => Visible): Steps<Counted> {
  let ofIndexes = known.get(rows);
  if (ofIndexes === undefined) {
    ofIndexes = new WeakMap();
    known.set(rows, ofIndexes);
  }
  const before = ofIndexes.get(reader);
  if (before !== undefined) return before;
  const counted: Counted = { ...(yield* reader.lengthsAmong(rows, visible)), frequencies: new Map() };
  ofIndexes.set(reader, counted);
  return counted;
}
