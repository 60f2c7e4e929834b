// In which order do hits come?
//
// By descending score, ties by id in the order of code points. An index knows no ids, so it hands over the k
// best and everything that ties with the k-th; here the ids of those that tie are read and decide.

import { compareText } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import { RecordReader } from "../collection/record.ts";
import { ordinalKey } from "../collection/tables.ts";
import type { Candidates } from "../index/contract.ts";
import type { Reader } from "../storage/store.ts";

export type Hit = { ordinal: number; score: number };

/** The record of a hit, borrowed from the store until the next read. */
export function recordOf(reader: Reader, ordinal: number): RecordReader {
  const bytes = reader.get("records", ordinalKey(ordinal));
  invariant(bytes !== undefined, `the index found ordinal ${ordinal}, which the version does not have`);
  return new RecordReader(bytes);
}

/** Sorts hits by descending score, ties by id, and keeps the first `k`. */
export function rankHits(reader: Reader, hits: Hit[], k: number): Hit[] {
  hits.sort((a, b) => b.score - a.score);
  const ranked: Hit[] = [];
  for (let from = 0; from < hits.length && ranked.length < k; ) {
    let to = from + 1;
    while (to < hits.length && hits[to].score === hits[from].score) to++;
    if (to === from + 1) ranked.push(hits[from]);
    else ranked.push(...byId(reader, hits.slice(from, to)).slice(0, k - ranked.length));
    from = to;
  }
  return ranked;
}

function byId(reader: Reader, hits: readonly Hit[]): Hit[] {
  return hits
    .map((hit) => ({ hit, id: recordOf(reader, hit.ordinal).id }))
    .sort((a, b) => compareText(a.id, b.id))
    .map(({ hit }) => hit);
}

/** The first `k` of an index's candidates in their final order. */
export function rankCandidates(reader: Reader, candidates: Candidates, k: number): Hit[] {
  const { count, ordinals, scores } = candidates;
  const hits = Array.from({ length: count }, (_, i): Hit => ({ ordinal: ordinals[i], score: scores[i] }));
  return rankHits(reader, hits, k);
}
