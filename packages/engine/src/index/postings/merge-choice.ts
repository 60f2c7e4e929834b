// Which segments become one next?

import { segmentRecordsMax } from "@quiverdb/kernels/postings";
import type { Segment } from "./segment.ts";

/** A segment with this many records, or this fraction of the maximum number of postings, is not merged; smaller neighbours are. */
const fullShare = 7 / 8;
const full = fullShare * segmentRecordsMax;
const smallSegmentsMin = 8;

/** How much time there is: records are changing, none is for the moment, or none was for a while. */
export type Leisure = "busy" | "idle" | "resting";

/**
 * The adjacent segments of the next merge: enough to make a full one; or eight, none of them longer than the others together, so that a
 * posting is merged two or three times until its segment is full.
 * @param leisure if idle, any segments that are not full, if the longest of them grows by at least a quarter, so that a posting is merged
 *   at most about ten times; if resting, any that are not full
 */
export function toMerge(
  segments: readonly Segment[],
  postingsMax: number,
  leisure: Leisure,
): Segment[] | undefined {
  const isFull = (records: number, postings: number) =>
    records >= full || postings >= fullShare * postingsMax;
  for (let begin = 0; begin < segments.length; begin++) {
    let end = begin;
    let [records, postings, longest] = [0, 0, 0];
    for (; end < segments.length && !isFull(segments[end].count, segments[end].postings); end++) {
      if (
        records + segments[end].count > segmentRecordsMax ||
        postings + segments[end].postings > postingsMax
      )
        break;
      records += segments[end].count;
      postings += segments[end].postings;
      longest = Math.max(longest, segments[end].postings);
    }
    const isEnough = {
      busy: end - begin >= smallSegmentsMin && 2 * longest <= postings,
      idle: 4 * (postings - longest) >= longest,
      resting: true,
    };
    if (end - begin >= 2 && (isFull(records, postings) || isEnough[leisure]))
      return segments.slice(begin, end);
    if (4 * segments[begin].removedCount > segments[begin].recordCount) return [segments[begin]];
  }
  return undefined;
}
