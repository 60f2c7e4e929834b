// In which order are hits returned?
//
// By descending score; ties by id, in the order of code points. An index does not know ids, so it returns the k best and everything that
// ties with the k-th. This file reads the ids of the ties. There can be many, for example if all texts have two words, so it reads them
// in steps and keeps only the first k.

import { compareText } from "../base/bytes.ts";
import type { Steps } from "../base/steps.ts";
import { Greatest } from "../base/top-k.ts";
import type { Candidates } from "../index/contract.ts";

/** The id of a record. */
export type IdOf = (ordinal: number) => string;

export type Hit = { ordinal: number; score: number };

/** Sorts hits by descending score, ties by id, and keeps the first `k`. */
export function* rankHits(idOf: IdOf, found: readonly Hit[], k: number): Steps<Hit[]> {
  const hits = byScore(atLeastKth(found, k));
  const ranked: Hit[] = [];
  for (let from = 0; from < hits.length && ranked.length < k; ) {
    let to = from + 1;
    while (to < hits.length && hits[to].score === hits[from].score) to++;
    if (to === from + 1) ranked.push(hits[from]);
    else if (to - from <= fewTies) pushById(idOf, hits, from, to, ranked, k);
    else ranked.push(...(yield* firstById(idOf, hits.slice(from, to), k - ranked.length)));
    from = to;
  }
  return ranked;
}

/** The k best hits, and all that tie with the k-th: fused rankings have many more. */
function atLeastKth(hits: readonly Hit[], k: number): Hit[] {
  if (hits.length <= 2 * k) return [...hits];
  const best = new Greatest(k);
  for (const { score } of hits) best.offer(score);
  return hits.filter(({ score }) => score >= best.floor);
}

/** Up to so many hits are sorted by insertion, over their scores alone. Array.sort takes two to four times as long. */
const insertedMax = 128;
const scores = new Float64Array(insertedMax);
const places = new Uint8Array(insertedMax);

/** Descending; ties in any order. */
function byScore(hits: Hit[]): Hit[] {
  if (hits.length > insertedMax) return hits.sort((a, b) => b.score - a.score);
  for (let i = 0; i < hits.length; i++) {
    const { score } = hits[i];
    let at = i;
    for (; at > 0 && scores[at - 1] < score; at--) {
      scores[at] = scores[at - 1];
      places[at] = places[at - 1];
    }
    scores[at] = score;
    places[at] = i;
  }
  const sorted: Hit[] = [];
  for (let i = 0; i < hits.length; i++) sorted.push(hits[places[i]]);
  return sorted;
}

/** Fused rankings have many pairs of ties: the i-th of one leg and the i-th of another. */
const fewTies = 4;

/** Appends few tied hits in the order of their ids, up to `k` in all. */
function pushById(
  idOf: IdOf,
  hits: readonly Hit[],
  from: number,
  to: number,
  ranked: Hit[],
  k: number,
): void {
  const begin = ranked.length;
  for (let i = from; i < to; i++) {
    const id = idOf(hits[i].ordinal);
    let at = ranked.push(hits[i]) - 1;
    for (; at > begin && compareText(idOf(ranked[at - 1].ordinal), id) > 0; at--) ranked[at] = ranked[at - 1];
    ranked[at] = hits[i];
  }
  if (ranked.length > k) ranked.length = k;
}

/** Ids that are read at a step. */
const idsPerStep = 1_024;

/** Of tied hits, the `k` with the smallest ids. */
function* firstById(idOf: IdOf, ties: readonly Hit[], k: number): Steps<Hit[]> {
  const first: { hit: Hit; id: string }[] = [];
  for (let from = 0; from < ties.length; from += idsPerStep) {
    if (from > 0) yield;
    for (const hit of ties.slice(from, from + idsPerStep)) first.push({ hit, id: idOf(hit.ordinal) });
    first.sort((a, b) => compareText(a.id, b.id));
    if (first.length > k) first.length = k;
  }
  return first.map(({ hit }) => hit);
}

/** The first `k` of an index's candidates in their final order. */
export function rankCandidates(idOf: IdOf, candidates: Candidates, k: number): Steps<Hit[]> {
  const { count, ordinals, scores } = candidates;
  const hits: Hit[] = [];
  for (let i = 0; i < count; i++) hits.push({ ordinal: ordinals[i], score: scores[i] });
  return rankHits(idOf, hits, k);
}

// ---- How are several rankings fused into one?
//
// Reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009), with weights: score(d) = sum over the rankings
// that have d of weight / (k + rank), rank from 1. The sum runs in the order of the legs, so that equal requests
// give equal bits.

/** A ranking, best first, and how much it counts. */
export type Ranking = { hits: readonly Hit[]; weight: number };

/** The contribution of a ranking to the score of its record at `rank`, from 1. */
export function contributionOf(weight: number, k: number, rank: number): number {
  return weight / (k + rank);
}

/**
 * @param k the fusion constant, greater than 0
 * @returns every ordinal of any ranking with its fused score, in no particular order
 */
export function fuse(rankings: readonly Ranking[], k: number): Hit[] {
  const fused: Hit[] = [];
  const known = new Map<number, Hit>();
  for (const [r, { hits, weight }] of rankings.entries())
    for (let i = 0; i < hits.length; i++) {
      const { ordinal } = hits[i];
      const score = contributionOf(weight, k, i + 1);
      const before = r === 0 ? undefined : known.get(ordinal);
      if (before !== undefined) {
        before.score += score;
        continue;
      }
      const hit = { ordinal, score };
      fused.push(hit);
      // No ranking has an ordinal twice, so the last one's need not be found.
      if (r < rankings.length - 1) known.set(ordinal, hit);
    }
  return fused;
}
