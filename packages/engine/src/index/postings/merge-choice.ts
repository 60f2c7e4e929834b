// Which runs become one next?

import { runRecordsMax } from "@quiver/kernels/postings";
import type { Run } from "./run.ts";

/** A run of so many records, or of this part of the most postings, is left alone; smaller neighbours are merged. */
const fullShare = 7 / 8;
const full = fullShare * runRecordsMax;
const smallRunsMin = 8;

/**
 * A run's neighbours of which the next merge makes one: so many that it is full; or eight, none of them longer than the others
 * together, so that a posting is merged two or three times until its run is full.
 * @param isIdle whether there is time: then any that are not full, where the longest of them grows by a quarter at least, so that
 * a posting that goes from run to run is merged some ten times at most
 */
export function toMerge(runs: readonly Run[], postingsMax: number, isIdle: boolean): Run[] | undefined {
  const isFull = (records: number, postings: number) =>
    records >= full || postings >= fullShare * postingsMax;
  for (let begin = 0; begin < runs.length; begin++) {
    let end = begin;
    let [records, postings, longest] = [0, 0, 0];
    for (; end < runs.length && !isFull(runs[end].count, runs[end].postings); end++) {
      if (records + runs[end].count > runRecordsMax || postings + runs[end].postings > postingsMax) break;
      records += runs[end].count;
      postings += runs[end].postings;
      longest = Math.max(longest, runs[end].postings);
    }
    const isEnough = isIdle
      ? 4 * (postings - longest) >= longest
      : end - begin >= smallRunsMin && 2 * longest <= postings;
    if (end - begin >= 2 && (isFull(records, postings) || isEnough)) return runs.slice(begin, end);
    if (4 * runs[begin].removedCount > runs[begin].recordCount) return [runs[begin]];
  }
  return undefined;
}
