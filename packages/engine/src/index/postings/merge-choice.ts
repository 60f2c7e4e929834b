// Which runs become one next?

import { runRecordsMax } from "@quiver/kernels/postings";
import type { Run } from "./run.ts";

/** A run of so many records, or half of the most postings, is left alone; smaller neighbours are merged. */
const largeRun = runRecordsMax / 2;

const smallRunsMin = 8;

/** ... or as soon as they make a run that is nearly as long as can be. */
const mergedMin = (7 * runRecordsMax) / 8;

/**
 * A run's neighbours of which the next merge makes one.
 * @param isIdle whether there is time: then any that are not full, where the longest of them grows by a quarter at least, so that
 * a posting that goes from run to run is merged some ten times at most
 */
export function toMerge(runs: readonly Run[], postingsMax: number, isIdle: boolean): Run[] | undefined {
  const [recordsEnd, postingsEnd] = isIdle ? [mergedMin, (7 * postingsMax) / 8] : [largeRun, postingsMax / 2];
  const isSmall = (run: Run) => run.count < recordsEnd && run.postings < postingsEnd;
  for (let begin = 0; begin < runs.length; begin++) {
    let end = begin;
    let [records, postings, longest] = [0, 0, 0];
    for (; end < runs.length && isSmall(runs[end]); end++) {
      if (records + runs[end].count > runRecordsMax || postings + runs[end].postings > postingsMax) break;
      records += runs[end].count;
      postings += runs[end].postings;
      longest = Math.max(longest, runs[end].postings);
    }
    const isNearlyFull = records >= mergedMin || postings >= (7 * postingsMax) / 8;
    const isEnough = isIdle ? 4 * (postings - longest) >= longest : end - begin >= smallRunsMin;
    if (end - begin >= 2 && (isNearlyFull || isEnough)) return runs.slice(begin, end);
    if (4 * runs[begin].removedCount > runs[begin].recordCount) return [runs[begin]];
  }
  return undefined;
}
