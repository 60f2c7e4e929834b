// Which records are nearest to a query, by the graphs or by a scan?
//
// The reader's side of an HNSW index. Graphs are searched by codes; the best candidates are scored exactly, from the full-precision vectors,
// and merged with an exact scan of the vectors that are in no graph yet. Searches find vector keys, and return their records
// (duplicate-vectors.ts).
//
// A search that sets no beam width uses the one that was measured to find enough (recall-watch.ts), and scans all vectors if none does.
//
// If only some ordinals are allowed, search-cost.ts selects the cheapest way: a beam of allowed nodes alone (allowed-nodes.ts), a wider beam
// with enough allowed entries, a scan of the allowed records (allowed-scan.ts), or a scan of all. All ways produce the same kind of result,
// so they are one class.

import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { finishAtOnce, type Steps } from "../../base/steps.ts";
import { leastOf } from "../../base/top-k.ts";
import { squaredNorm } from "../../vector/exact.ts";
import type { Metric } from "../../vector/metric.ts";
import { bestOf, type Candidates, nothing, seenAndAllowed, type Visible } from "../contract.ts";
import type { Allowed, OrdinalBitmap } from "../ordinal-bitmap.ts";
import { absent } from "../ordinal-map.ts";
import { type AllowedNodes, knownNodes, rememberNodes } from "./allowed-nodes.ts";
import { AllowedScan } from "./allowed-scan.ts";
import { type Beam, type CutBeam, lengthOf } from "./beam.ts";
import { firstDepth, rescoreDepth } from "./code-types.ts";
import { ExactSearch } from "./exact-search.ts";
import { efMax } from "./graph-layout.ts";
import type { GraphSearch, Walk } from "./graph-search.ts";
import type { HnswSearch } from "./hnsw-options.ts";
import { lengthThatCounts, type Quality, qualityDepth } from "./quality.ts";
import { Rescoring } from "./rescoring.ts";
import type { RowScan } from "./row-scan.ts";
import {
  amongBeam,
  amongUs,
  beamOfScan,
  type DenseEstimate,
  estimateOf,
  longestBeam,
  type UsualSearch,
  wideUs,
} from "./search-cost.ts";
import {
  attachVectors,
  readVector,
  type SearchedVectors,
  type SharedVectors,
  type VectorReader,
} from "./searched-vectors.ts";

/** What was measured of the serving graphs. */
export interface Serving {
  readonly quality: Pick<Quality, "farScore" | "cut" | "askedCuts"> | undefined;
  /** Searches that name no beam take this one at least. */
  readonly efFloor: number;
  /** Whether, by the measurements, searches that set no beam width scan all vectors. */
  readonly isScanning: boolean;
}

/** What a thread needs to search an index of another as it was at a time. Can be posted to it. */
export type DenseDescriptor = {
  readonly vectors: SharedVectors;
  readonly efSearch: number;
  readonly efFloor: number;
  readonly isScanning: boolean;
  readonly quality: Serving["quality"];
};

/** How a search was answered. */
export type DenseWay = "follow links" | "scan matching vectors" | "scan all vectors";

/** A search of the graphs. */
export type GraphPass = {
  readonly beam: Beam;
  /** Whether it was one of allowed nodes alone. */
  readonly isAmong: boolean;
};

export class HnswReader {
  readonly #vectors: SearchedVectors;
  readonly #serving: Serving;
  readonly #efSearch: number;
  /** The state of a running search. */
  readonly #found = new Growable(Uint32Array);
  readonly #rescoring: Rescoring;
  /** The way of the last search that `begin` or `beginExactly` has begun. */
  chosen: DenseWay = "follow links";
  /** The last search of the graphs; a beam of 0: there was none. */
  #beam: Beam = 0;
  #isAmong = false;

  /** @param efSearch length of the beam where a search names none, and nothing was measured */
  constructor(vectors: SearchedVectors, serving: Serving, efSearch: number) {
    this.#vectors = vectors;
    this.#serving = serving;
    this.#efSearch = efSearch;
    this.#rescoring = new Rescoring(vectors);
  }

  /** The reader of an index that another thread owns. @param slot of this one, from 1: the number of its scratch memories */
  static attach({ vectors, efSearch, ...serving }: DenseDescriptor, slot: number): HnswReader {
    return new HnswReader(attachVectors(vectors, slot), serving, efSearch);
  }

  get metric(): Metric {
    return this.#vectors.metric;
  }

  /** Whether searches that name no beam read all vectors: there is no graph, a beam would cost as much, or none finds enough. */
  get isReadingAll(): boolean {
    const count = this.#vectors.graphs?.count ?? 0;
    return this.#serving.isScanning || beamOfScan(this.#vectors.dimension, count) <= this.efDefault;
  }

  /** The beam of searches that name none. */
  get efDefault(): number {
    return Math.max(this.#efSearch, this.#serving.efFloor);
  }

  /** Distinct vectors held. */
  get vectorCount(): number {
    return (this.#vectors.graphs?.count ?? 0) + this.#vectors.waitingCount;
  }

  /** Vectors that every search by the graphs compares one by one, because no graph has them yet. */
  get tailCount(): number {
    return this.#vectors.waitingCount;
  }

  /** The last pass of the search that `begin` has begun last, if it followed links; null: it compares vectors, or there is no graph. */
  get lastPass(): GraphPass | null {
    return this.chosen === "follow links" && this.#beam !== 0
      ? { beam: this.#beam, isAmong: this.#isAmong }
      : null;
  }

  /** Replays a pass for the same query, in the graphs as they are now. @param allowed as in its search */
  walk(query: Float32Array, { beam, isAmong }: GraphPass, allowed: Allowed = null): Walk {
    const graphs = this.#vectors.graphs;
    const nodes = isAmong && graphs !== undefined && allowed !== null ? this.#nodesOf(allowed, graphs) : null;
    // There are several graphs since, or none.
    if (graphs === undefined || (isAmong && nodes === null))
      return { vectorKeys: [], from: [], distances: 0 };
    return graphs.walk(query, beam, nodes);
  }

  /**
   * A record of a vector key of a walk, with its score; null if the version sees none.
   * @param visible, vectorOf as in a search
   */
  recordOf(
    query: Float32Array,
    vectorKey: number,
    visible: Visible,
    vectorOf: VectorReader,
  ): { ordinal: number; score: number } | null {
    const { duplicates, metric } = this.#vectors;
    const seen = visible === null || visible(vectorKey) ? vectorKey : absent;
    const ordinal = duplicates.isEmpty ? seen : duplicates.seen(vectorKey, visible);
    if (ordinal === absent) return null;
    return { ordinal, score: metric.score(metric.exactDistance(query)(readVector(ordinal, vectorOf), 0)) };
  }

  /** The actual beam width of a search for k records: the one that it sets, k at least; else at least the number of exactly scored candidates. */
  beamOf(k: number, ef?: number): number {
    if (ef !== undefined) return Math.max(ef, k);
    const graphs = this.#vectors.graphs;
    return graphs === undefined ? this.efDefault : Math.max(this.efDefault, depthOf(graphs, k));
  }

  /** The k best vector keys by the graphs with a beam of one length. @param visible, vectorOf as in a search */
  nearest(vector: Float32Array, k: number, ef: number, visible: Visible, vectorOf: VectorReader): Candidates {
    return this.#searchGraphs(vector, k, visible, { ef, vectorOf }) ?? nothing;
  }

  /** The beam with a cutoff of a search for k records; null: it takes one of one length. What was measured is few records. */
  #cutOf(k: number, { ef, rescore, mayCut, without }: HnswSearch): CutBeam | null {
    const { quality } = this.#serving;
    const records = without === undefined ? k : k - 1;
    if (quality === undefined || rescore !== undefined || records > qualityDepth) return null;
    if (ef === undefined) return quality.cut ?? null;
    if (!mayCut) return null;
    return quality.askedCuts?.find((asked) => asked.ef === ef)?.cut ?? null;
  }

  /** About the k nearest records, with exact scores. `query` has `dimension` finite values and is borrowed. */
  search(query: Float32Array, k: number, options: HnswSearch): Candidates {
    const { visible = null, allowed = null, vectorOf } = options;
    if (allowed !== null) return finishAtOnce(this.begin(query, k, () => visible, options))[0];
    this.#assertQuery(query);
    if (k <= 0 || this.#vectors.count === 0) return nothing;
    const found = this.#searchGraphs(query, k, visible, options);
    if (found === null) return this.searchExactly(query, k, visible, vectorOf);
    const scanned =
      this.#vectors.waitingCount === 0
        ? nothing
        : this.#vectors.rows.searchWaiting(query, k, this.#vectors.duplicates.seesVectorKey(visible));
    return this.#recordsOf(scanned.count === 0 ? found : bestOf([found, scanned], k), query, k, visible);
  }

  /**
   * Starts a search like `search` with scans in steps, between which the index may change.
   * @param visible returns the visibility test; called at the start of each step
   */
  begin(
    query: Float32Array,
    k: number,
    visible: () => Visible,
    options: Omit<HnswSearch, "visible">,
  ): Steps<Candidates[]> {
    this.#assertQuery(query);
    const { allowed = null, vectorOf } = options;
    this.chosen = "follow links";
    this.#beam = 0;
    if (k <= 0 || this.#vectors.count === 0 || allowed?.count === 0) return done([nothing]);
    if (allowed !== null && this.#isScanned(allowed, k, options))
      return this.beginExactly([query], k, visible, vectorOf, allowed);
    const sees = allowed === null ? visible : () => seenAndAllowed(visible(), allowed);
    const found =
      allowed === null
        ? this.#searchGraphs(query, k, visible(), options)
        : this.#searchAllowed(query, k, sees(), allowed, options);
    if (found === null) return this.beginExactly([query], k, visible, vectorOf, allowed);
    if (this.#vectors.waitingCount === 0) return done([this.#recordsOf(found, query, k, sees())]);
    const scan = this.#vectors.rows.scanWaiting(query, Math.min(k, this.#vectors.count), () =>
      this.#vectors.duplicates.seesVectorKey(sees()),
    );
    return this.#withWaiting(found, scan, query, k, sees);
  }

  /** What was found by the graphs, and what waits. */
  *#withWaiting(
    found: Candidates,
    waiting: RowScan,
    query: Float32Array,
    k: number,
    sees: () => Visible,
  ): Steps<Candidates[]> {
    return [this.#recordsOf(bestOf([found, yield* waiting.search()], k), query, k, sees())];
  }

  *#recordsOfAll(
    search: ExactSearch,
    queries: readonly Float32Array[],
    k: number,
    sees: () => Visible,
  ): Steps<Candidates[]> {
    const answers = yield* search.search();
    return answers.map((found, i) => this.#recordsOf(found, queries[i], k, sees()));
  }

  /** The k nearest records, by reading all. */
  searchExactly(
    query: Float32Array,
    k: number,
    visible: Visible,
    vectorOf?: VectorReader,
    allowed: Allowed = null,
  ): Candidates {
    return finishAtOnce(this.beginExactly([query], k, () => visible, vectorOf, allowed))[0];
  }

  /**
   * Starts an exact search for the k nearest records of each query, which reads all permitted records in steps, between which the index may
   * change.
   * @param visible returns the visibility test; called at the start of each step
   */
  beginExactly(
    queries: readonly Float32Array[],
    k: number,
    visible: () => Visible,
    vectorOf?: VectorReader,
    allowed: Allowed = null,
  ): Steps<Candidates[]> {
    for (const query of queries) this.#assertQuery(query);
    // The searched version does not see records that are added later, so it finds no more than there are now.
    const most = Math.min(k, this.#vectors.count);
    if (most <= 0 || allowed?.count === 0) return done(queries.map(() => nothing));
    this.chosen = "scan all vectors";
    if (allowed !== null && this.#isListCheaper(allowed)) {
      this.chosen = "scan matching vectors";
      return new AllowedScan(this.#vectors, queries, most, allowed, visible, vectorOf).search();
    }
    const sees = allowed === null ? visible : () => seenAndAllowed(visible(), allowed);
    const search = new ExactSearch(
      this.#vectors,
      queries,
      most,
      () => this.#vectors.duplicates.seesVectorKey(sees()),
      this.#vectors.duplicates.readerOf(sees, vectorOf),
    );
    return this.#recordsOfAll(search, queries, k, sees);
  }

  /** The cost of a search for k records in each way, for these allowed ordinals. @param ef beam width; default: the index's own */
  estimate(allowed: OrdinalBitmap, k: number, ef?: number): DenseEstimate {
    return estimateOf(this.#vectors, allowed.count, this.#usual(allowed, k, ef));
  }

  #usual(allowed: OrdinalBitmap, k: number, ef?: number): UsualSearch {
    const graphs = this.#vectors.graphs;
    const scored = graphs === undefined ? 0 : depthOf(graphs, k);
    const usual = { beam: Math.max(ef ?? this.efDefault, scored), scored };
    if (graphs === undefined || !graphs.isOne) return usual;
    return { ...usual, hasNodes: knownNodes(allowed, graphs, this.#moment) !== undefined };
  }

  /** Whether looking up the allowed records costs less than a sequential scan of everything. */
  #isListCheaper(allowed: OrdinalBitmap): boolean {
    const { allowedUs, allUs } = estimateOf(this.#vectors, allowed.count);
    return allowedUs <= allUs;
  }

  /** Whether an exact scan of the allowed records, or of all, costs less than following links. */
  #isScanned(allowed: OrdinalBitmap, k: number, { ef, way }: Pick<HnswSearch, "ef" | "way">): boolean {
    if (way !== undefined) return way === "scan";
    const { graphUs, allowedUs, allUs } = this.estimate(allowed, k, ef);
    return Math.min(allowedUs, allUs) <= graphUs;
  }

  #assertQuery(query: Float32Array): void {
    const { dimension } = this.#vectors;
    invariant(query.length === dimension, `a query has ${query.length} values instead of ${dimension}`);
    invariant(Number.isFinite(squaredNorm(query, 0, dimension)), "a query has a value that is not finite");
  }

  /** The k best vector keys of all graphs; null if too few of the found vector keys are visible, and only a full scan helps. */
  #searchGraphs(
    query: Float32Array,
    k: number,
    visible: Visible,
    options: Omit<HnswSearch, "visible">,
  ): Candidates | null {
    const graphs = this.#vectors.graphs;
    if (graphs === undefined || graphs.count === 0) return nothing;
    if (options.ef === undefined && this.isReadingAll) return null;
    const wanted = depthOf(graphs, k, options.rescore);
    const sees = this.#vectors.duplicates.seesVectorKey(visible);
    // A vector with duplicates is there without the one record that the search goes by.
    const { duplicates } = this.#vectors;
    const isAlone = options.without !== undefined && duplicates.isEmpty;
    const without = isAlone ? (options.without as number) : absent;
    // Codes of f32 leave nothing to find out.
    const isAdaptive = options.rescore === undefined && graphs.isOne && graphs.encoding.dataType !== "f32";
    const read = this.#vectors.duplicates.readerOf(() => visible, options.vectorOf);
    const vectorKeys = this.#found;
    let floorBefore: number | undefined;
    let cut = this.#cutOf(k, options);
    for (let ef = this.beamOf(k, options.ef); ef <= efMax; ef = longerBeam(ef)) {
      const beam: Beam = cut ?? ef;
      // A search that must look farther is not cut.
      cut = null;
      vectorKeys.length = 0;
      this.#beam = beam;
      this.#isAmong = false;
      const taken = isAdaptive ? lengthOf(beam) : wanted;
      const isExhausted = graphs.search(query, beam, taken, sees, without, vectorKeys);
      // If too few entries of the beam are visible, a longer beam finds more, unless this one has visited every node that it can reach.
      if (this.#isEnough(vectorKeys, k, visible, graphs)) {
        const depth = isAdaptive ? firstDepth(graphs.encoding.dataType, wanted, k) : vectorKeys.length;
        const best = this.#rescoring.best(query, vectorKeys, depth, k, read);
        if (isFixed(options) || !this.#isFar(query, best)) return best;
        // Links lead to the neighbours of vectors, but only by chance to those of an out-of-distribution query. So widen the beam until no
        // better result appears.
        const floor = leastOf(best);
        if (floor === floorBefore) return best;
        floorBefore = floor;
        if (longerBeam(ef) > beamOfScan(this.#vectors.dimension, graphs.count)) return null;
      } else if (isExhausted) break;
    }
    return null;
  }

  /**
   * The k best allowed vector keys of all graphs. The beam visits all vectors and is widened until enough of its entries are allowed. null if
   * comparing vectors costs less.
   * @param sees whether a vector key is visible and allowed
   */
  #searchAllowed(
    query: Float32Array,
    k: number,
    sees: Visible,
    allowed: OrdinalBitmap,
    { ef, rescore, vectorOf, way, mayWiden }: Omit<HnswSearch, "visible">,
  ): Candidates | null {
    const graphs = this.#vectors.graphs;
    if (graphs === undefined || graphs.count === 0) return nothing;
    if (ef === undefined && way === undefined && this.isReadingAll) return null;
    const wanted = depthOf(graphs, k, rescore);
    const usual = Math.max(ef ?? this.efDefault, wanted);
    const enough = Math.max(wanted, usual >> 1);
    const share = allowed.count / this.#vectors.count;
    const searchAmong = (width: number) =>
      this.#searchAmong(
        query,
        k,
        sees,
        allowed,
        { ef, rescore, vectorOf, mayWiden },
        Math.ceil(width * usual),
      );
    let isAmongTried = this.#isAmongCheaper(allowed, k, ef);
    // A beam that is asked for is taken as it is: no search after it widens it.
    const width = ef === undefined ? amongBeam(share) : Math.max(1, amongBeam(share));
    const among = isAmongTried ? searchAmong(width) : null;
    if (among !== null) return among;
    const longest = way === "graph" ? efMax : Math.min(efMax, longestBeam(this.#vectors, allowed.count));
    const seesVectorKey = this.#vectors.duplicates.seesVectorKey(sees);
    const read = this.#vectors.duplicates.readerOf(() => sees, vectorOf);
    const vectorKeys = this.#found;
    // The results of one graph are ordered by code, best first.
    const isSorted = graphs.isOne;
    let floorBefore: number | undefined;
    for (let beam = firstBeam(usual, share); beam <= longest; ) {
      vectorKeys.length = 0;
      this.#beam = beam;
      this.#isAmong = false;
      const isExhausted = graphs.search(query, beam, enough, seesVectorKey, absent, vectorKeys);
      if (vectorKeys.length >= enough || (isExhausted && vectorKeys.length >= k)) {
        const best = this.#rescoring.best(query, vectorKeys, isSorted ? wanted : vectorKeys.length, k, read);
        const floor = leastOf(best);
        if (isFixed({ ef, mayWiden }) || !this.#isFar(query, best) || floor === floorBefore) return best;
        floorBefore = floor;
      } else if (isExhausted) return null;
      // Near the query are fewer allowed vectors than elsewhere, or they are all far from it.
      if (!isAmongTried && isSorted) {
        isAmongTried = true;
        const found = searchAmong(Math.max(1, amongBeam(share)));
        if (found !== null) return found;
      }
      beam = widenedBeam(beam, vectorKeys.length, enough);
    }
    return null;
  }

  /** Another one when a record may have got a node. */
  get #moment(): string {
    return `${this.#vectors.graphs?.count} ${this.#vectors.last} ${this.#vectors.waitingCount}`;
  }

  /** Whether a beam of allowed nodes alone is expected to cost less than a wider one of all. */
  #isAmongCheaper(allowed: OrdinalBitmap, k: number, ef: number | undefined): boolean {
    const usual = this.#usual(allowed, k, ef);
    const among = amongUs(this.#vectors, allowed.count, usual);
    return among <= wideUs(this.#vectors, allowed.count, usual) && among < Number.POSITIVE_INFINITY;
  }

  /** The nodes of allowed records, as they are now; null if there are several graphs. */
  #nodesOf(allowed: OrdinalBitmap, graphs: GraphSearch): AllowedNodes | null {
    const moment = this.#moment;
    const known = knownNodes(allowed, graphs, moment);
    if (known !== undefined) return known;
    const nodes = graphs.nodesOf(allowed, this.#vectors.duplicates);
    if (nodes !== null) rememberNodes(allowed, graphs, moment, nodes);
    return nodes;
  }

  /** The k best vector keys by a beam of allowed nodes alone, of this length or a greater one; null where that has not found enough. */
  #searchAmong(
    query: Float32Array,
    k: number,
    sees: Visible,
    allowed: OrdinalBitmap,
    { ef, rescore, vectorOf, mayWiden }: Omit<HnswSearch, "visible">,
    beamMin: number,
  ): Candidates | null {
    const graphs = this.#vectors.graphs as GraphSearch;
    const nodes = this.#nodesOf(allowed, graphs);
    if (nodes === null) return null;
    const wanted = depthOf(graphs, k, rescore);
    const seesVectorKey = this.#vectors.duplicates.seesVectorKey(sees);
    const read = this.#vectors.duplicates.readerOf(() => sees, vectorOf);
    const vectorKeys = this.#found;
    let floorBefore: number | undefined;
    const first = Math.max(wanted, beamMin);
    for (let beam = first; beam <= efMax; beam *= 2) {
      vectorKeys.length = 0;
      this.#beam = beam;
      this.#isAmong = true;
      const isFull = graphs.searchAmong(query, beam, wanted, seesVectorKey, nodes, vectorKeys);
      const isAll = vectorKeys.length >= nodes.count;
      if (!isAll && !(isFull && vectorKeys.length >= wanted)) return null;
      const best = this.#rescoring.best(query, vectorKeys, Math.min(wanted, vectorKeys.length), k, read);
      // The allowed vectors may all be far from the query, where links lead to the nearest of them only by chance.
      const floor = leastOf(best);
      if (isAll || isFixed({ ef, mayWiden }) || floor === floorBefore || !this.#isFar(query, best))
        return best;
      floorBefore = floor;
    }
    return null;
  }

  /** Whether the best result of a query is farther away than any vector is from its neighbours. */
  #isFar(query: Float32Array, { scores }: Candidates): boolean {
    const far = this.#serving.quality?.farScore;
    return (
      far !== undefined && Math.max(...scores) < far * lengthThatCounts(this.#vectors.metric.name, query)
    );
  }

  /** Whether vector keys have k records that are seen, or are all that the graphs have. */
  #isEnough(vectorKeys: Growable<Uint32Array>, k: number, visible: Visible, graphs: GraphSearch): boolean {
    if (vectorKeys.length >= k || (vectorKeys.length >= graphs.count && !graphs.isAttached)) return true;
    const { duplicates } = this.#vectors;
    if (duplicates.isEmpty) return false;
    let records = 0;
    for (let i = 0; i < vectorKeys.length && records < k; i++)
      duplicates.each(vectorKeys.values[i], (ordinal) => {
        if (visible === null || visible(ordinal)) records++;
        return records < k;
      });
    return records >= k;
  }

  /** The k best records of vector keys with their scores, and what ties with the k-th. */
  #recordsOf(found: Candidates, query: Float32Array, k: number, visible: Visible): Candidates {
    const { duplicates, directionless } = this.#vectors;
    if (k <= 0 || (duplicates.isEmpty && directionless === absent)) return found;
    let all = found;
    if (directionless !== absent && duplicates.seen(directionless, visible) !== absent) {
      const zero = this.#vectors.metric.score(
        this.#vectors.metric.exactDistance(query)(new Float32Array(this.#vectors.dimension), 0),
      );
      all = bestOf([found, { count: 1, ordinals: [directionless], scores: [zero] }], k);
    }
    if (duplicates.isEmpty) return all;
    const order = Array.from({ length: all.count }, (_, i) => i).sort(
      (a, b) => all.scores[b] - all.scores[a],
    );
    const best = { ordinals: [] as number[], scores: [] as number[] };
    for (const i of order) {
      if (best.ordinals.length >= k && all.scores[i] < (best.scores.at(-1) as number)) break;
      duplicates.each(all.ordinals[i], (ordinal) => {
        if (visible !== null && !visible(ordinal)) return true;
        best.ordinals.push(ordinal);
        best.scores.push(all.scores[i]);
        return true;
      });
    }
    return { count: best.ordinals.length, ...best };
  }
}

/** How many of the best by code are scored exactly for k records; more than a beam can have only where k is. */
export function depthOf(graphs: Pick<GraphSearch, "encoding">, k: number, rescore?: number): number {
  const wanted = rescore ?? rescoreDepth(graphs.encoding.dataType, k);
  return Math.max(k, Math.min(wanted, efMax));
}

/** The beam that is tried after one: more than efMax when there is none. */
/** Whether the beam that a search sets stays as it is, even if the query is far from all vectors. */
const isFixed = ({ ef, mayWiden }: Pick<HnswSearch, "ef" | "mayWiden">): boolean =>
  ef !== undefined && !mayWiden;

const longerBeam = (beam: number): number => Math.max(beam + 1, Math.min(4 * beam, efMax));

/** The beam width with as many allowed entries as the usual one, if the allowed records are spread evenly. @param share 0 to 1 */
const firstBeam = (usual: number, share: number): number => Math.ceil(usual / Math.min(1, share));

/** The next beam width after one with too few allowed entries: wider in proportion to the shortage, within limits. */
function widenedBeam(beam: number, found: number, enough: number): number {
  const wanted = (1.2 * beam * enough) / Math.max(1, found);
  return Math.ceil(Math.min(8 * beam, Math.max(2 * beam, wanted)));
}

/** A search that is done before it begins. */
// biome-ignore lint/correctness/useYield: it takes no steps.
function* done(answers: Candidates[]): Steps<Candidates[]> {
  return answers;
}
