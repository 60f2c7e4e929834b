// Which vectors are nearly nearest to a query, without reading them all?
//
// The hierarchical graph of Malkov and Yashunin (arXiv:1603.09320), searched on codes; the best `rescore` of what the
// graph finds are scored exactly, from vectors that the caller keeps. Insertion and search run in WebAssembly
// (kernels/assembly/hnsw); this class encodes, decides, and keeps what only the builder needs.
//
//              add                            sweep                         sweep ends
//   (unknown) -----> pending or in the graph  .....  remove -> dead unit  -------------> free unit
//
// Pending: until `sampleCount` records came, there is nothing to calibrate codes by; they are scanned exactly.
//
// A removed node still leads searches on, but is never an answer and gets no new link. When a quarter of the nodes is
// dead, a sweep goes through all nodes, some at each change, and replaces links to dead ones; then their units are free.
// A node can lose its last link from others when lists are chosen anew: `settle` looks for such nodes and links them again.
// It runs by itself after sweeps, and whenever the graph has grown by half.
//
// Equal calls make equal bytes: levels come from a hash of seed and ordinal, and all orders are total.
//
// Invariants (see check):
//   1. The map has each ordinal in the graph once, with its node; pending ordinals are not in it.
//   2. A list has at most m0 links at level 0 and m above, to distinct other nodes of at least that level.
//   3. The entry point is a node of the greatest level, dead or living.
//   4. Links lead only to nodes, and after `settle` to every living one from the entry point.
//   5. A node's code, factor and bias are the encoding of its vector.

import type { MetricName } from "@quiver/protocol/shapes/index-definition";
import { Growable } from "../../base/growable.ts";
import { invariant } from "../../base/invariant.ts";
import { keepBest } from "../../base/top-k.ts";
import { squaredNorm } from "../../vector/exact.ts";
import { readFloats } from "../../vector/floats.ts";
import type { Metric } from "../../vector/metric.ts";
import { metrics } from "../../vector/metrics.ts";
import { assertAscending, type Candidates, type Index, nothing, type Visible } from "../contract.ts";
import { absent, OrdinalMap } from "../ordinal-map.ts";
import { checkGraph, reach } from "./check.ts";
import {
  buildModes,
  dataTypeNumbers,
  Encoding,
  type HnswDataType,
  needsSample,
  type Range,
  rescoreDepth,
} from "./encoding.ts";
import { Graph } from "./graph.ts";
import { levelOf } from "./level.ts";

export type HnswOptions = {
  /** 1 to 65,535. */
  dimension: number;
  metric: MetricName;
  dataType: HnswDataType;
  /** Values of vectors are clamped to it before they are encoded; default none. */
  range?: Range | undefined;
  /** The vector of a record that was added and not removed, kept by the caller: f32 values, or their bytes. Borrowed. */
  vectorOf: (ordinal: number) => Float32Array | Uint8Array;
  /** Links of a node above level 0, 2 at least; default 16. */
  m?: number;
  /** Links at level 0; default twice `m`. */
  m0?: number;
  /** Nodes weighed as links of a new one; default 128. */
  efConstruction?: number;
  /** Greatest number of levels; default 9. */
  levelsMax?: number;
  /** Decides the levels; default 0. */
  seed?: number;
  /** Records by which codes are calibrated, where codes need it; default 1,000. */
  sampleCount?: number;
  /** Bytes of the memory of codes and links; 4 GiB at most, the default. */
  memoryBytesMax?: number;
};

/** Beams are not longer than this: a search that needs more reads all records. */
export const efMax = 4_096;

/** What a unit is, for the builder. */
const kinds = { free: 0, node: 1, upper: 2, dead: 3 } as const;

/** Candidates for the links of a node that loses some. */
const candidatesMax = 512;

/** Units that a sweep visits at each change. */
const sweepUnits = 32;

export class HnswIndex implements Index {
  readonly dimension: number;
  readonly metric: Metric;
  readonly #options: Required<Omit<HnswOptions, "range">> & Pick<HnswOptions, "range">;
  readonly #nodes = new OrdinalMap();
  readonly #kinds = new Growable(Uint8Array);
  #pending: number[] = [];
  #encoding: Encoding | undefined;
  #graph: Graph | undefined;
  #last = -1;
  #dead: number[] = [];
  /** The unit that the sweep comes to next; -1 while none is on. */
  #sweepAt = -1;
  /** How many of the dead were dead when the sweep began. */
  #sweptDead = 0;
  /** Nodes at the last `settle`. */
  #settledCount = 0;

  constructor(options: HnswOptions) {
    const m = options.m ?? 16;
    this.#options = {
      m,
      m0: 2 * m,
      efConstruction: 128,
      levelsMax: 9,
      seed: 0,
      sampleCount: 1_000,
      memoryBytesMax: 2 ** 32,
      ...options,
    };
    invariant(m >= 2 && this.#options.m0 >= 2, "a node has at least two links");
    invariant(this.#options.efConstruction <= efMax, `ef_construction is at most ${efMax}`);
    this.dimension = options.dimension;
    this.metric = metrics[options.metric];
    if (!needsSample(options.metric, options.dataType)) this.#begin([]);
  }

  get count(): number {
    return this.#nodes.size + this.#pending.length;
  }

  has(ordinal: number): boolean {
    return this.#nodes.get(ordinal) !== absent || this.#pending.includes(ordinal);
  }

  /** Whether the memory has room for another node; a record beyond it belongs into another index. */
  get hasRoom(): boolean {
    return this.#graph === undefined || this.#graph.hasRoom(this.#options.levelsMax - 1);
  }

  /** Adds a record: `values` are 4 * dimension bytes of finite little-endian f32, as `vectorOf` will answer. */
  add(ordinal: number, values: Uint8Array): void {
    assertAscending(ordinal, this.#last);
    const bytes = 4 * this.dimension;
    if (values.byteLength !== bytes) {
      invariant(false, `a vector has ${values.byteLength} bytes instead of ${bytes}`);
    }
    const vector = readFloats(values);
    if (!Number.isFinite(squaredNorm(vector, 0, this.dimension))) {
      invariant(false, `the vector of ordinal ${ordinal} has a value that is not finite`);
    }
    invariant(this.hasRoom, "a record is added to a full graph");
    this.#last = ordinal;
    if (this.#graph !== undefined) {
      this.#insert(ordinal, vector);
      this.#sweep(sweepUnits);
      if (this.#nodes.size > 1.5 * this.#settledCount + 1_000) this.settle();
      return;
    }
    this.#pending.push(ordinal);
    if (this.#pending.length < this.#options.sampleCount) return;
    const sample = this.#pending.map((pending) =>
      pending === ordinal ? vector : this.#vector(pending).slice(),
    );
    const pending = this.#pending;
    this.#pending = [];
    this.#begin(sample);
    sample.forEach((row, i) => {
      this.#insert(pending[i], row);
    });
  }

  /** Nothing to do: a closed record is found as before, and `visible` decides. */
  retire(_ordinal: number): void {}

  remove(ordinal: number): void {
    const node = this.#nodes.get(ordinal);
    if (node === absent) {
      this.#pending = this.#pending.filter((pending) => pending !== ordinal);
      return;
    }
    const graph = this.#built();
    this.#nodes.delete(ordinal);
    graph.words[graph.metaAt(node) + 2] = absent;
    this.#kinds.values[node] = kinds.dead;
    this.#dead.push(node);
    if (this.#nodes.size === 0) {
      this.#forget();
      return;
    }
    if (this.#sweepAt < 0 && 4 * this.#dead.length > this.#nodes.size) this.#beginSweep();
    // A graph that is half dead cannot wait: the beam of an insertion must hold living nodes.
    this.#sweep(this.#dead.length > this.#nodes.size ? Number.POSITIVE_INFINITY : 4 * sweepUnits);
  }

  /**
   * About the k nearest records, with exact scores. `ef` (the beam, at least k) decides how nearly; the best `rescore`
   * (at least k) by code are scored exactly. `query` has `dimension` finite values and is borrowed.
   */
  search(
    query: Float32Array,
    k: number,
    ef: number,
    visible: Visible,
    rescore = rescoreDepth(this.#options.dataType, k),
  ): Candidates {
    const { dimension } = this;
    invariant(query.length === dimension, `a query has ${query.length} values instead of ${dimension}`);
    invariant(Number.isFinite(squaredNorm(query, 0, dimension)), "a query has a value that is not finite");
    if (k <= 0 || this.count === 0) return nothing;
    const wanted = Math.max(k, rescore);
    const graph = this.#graph;
    if (graph === undefined) return this.#score(query, this.#pending, k, visible);
    this.#setQuery(graph, query);
    for (
      let beam = Math.max(ef, wanted);
      beam <= efMax;
      beam = Math.max(beam + 1, Math.min(4 * beam, efMax))
    ) {
      const found = graph.kernels.hnswSearch(graph.area, beam);
      const ordinals = this.#visibleOf(graph, found, wanted, visible);
      // Where too few of the beam can be seen, a longer one finds more, unless it has met all there is on its way.
      if (ordinals.length >= Math.min(k, this.count)) return this.#score(query, ordinals, k, null);
      if (found < beam) break;
    }
    return this.#score(query, this.#ordinals(), k, visible);
  }

  get memoryBytes(): number {
    const graph = this.#graph?.memoryBytes ?? 0;
    return graph + this.#nodes.memoryBytes + this.#kinds.memoryBytes + 8 * this.#dead.length + 500;
  }

  /** Links nodes again to which no way leads from the entry point; returns how many it found. */
  settle(): number {
    const graph = this.#graph;
    this.#settledCount = this.#nodes.size;
    if (graph === undefined || graph.entry === absent) return 0;
    const { parents, orphans } = reach(graph, this.#nodes);
    for (const orphan of orphans) this.#adopt(graph, orphan, parents);
    return orphans.length;
  }

  /** Proves the invariants, as of the last `settle`. */
  check(): void {
    this.#nodes.check();
    const graph = this.#graph;
    if (graph === undefined) {
      invariant(this.#nodes.size === 0, "there are nodes but no graph");
      return;
    }
    const kindOf = (unit: number) => this.#kinds.values[unit];
    const isNode = (unit: number) => kindOf(unit) === kinds.node || kindOf(unit) === kinds.dead;
    checkGraph(graph, this.#nodes, this.#encodingOf(), isNode, (ordinal) => this.#vector(ordinal));
    invariant(
      this.#dead.every((node) => kindOf(node) === kinds.dead),
      "a dead node is not marked",
    );
    let used = 0;
    for (let unit = 0; unit < graph.units; unit++) if (kindOf(unit) !== kinds.free) used++;
    const free = graph.freeUnits.length;
    invariant(used + free === graph.units, `${used} used and ${free} free units of ${graph.units}`);
  }

  close(): void {
    this.#forget();
    this.#pending = [];
    this.#graph = undefined;
  }

  /** The bytes of graph and codes, for comparison; borrowed, and changed by any call. */
  get bytes(): Uint8Array {
    const graph = this.#built();
    return graph.bytes.subarray(graph.nodesAt, graph.at(graph.units));
  }

  #built(): Graph {
    invariant(this.#graph !== undefined, "the graph is not there yet, or closed");
    return this.#graph;
  }

  #encodingOf(): Encoding {
    invariant(this.#encoding !== undefined, "codes are not calibrated yet");
    return this.#encoding;
  }

  #begin(sample: readonly Float32Array[]): void {
    const { metric, dataType, range, seed, m, m0, efConstruction, memoryBytesMax } = this.#options;
    this.#encoding = new Encoding({ metric, dataType, dimension: this.dimension, range, seed }, sample);
    this.#graph = new Graph({
      codeBytes: this.#encoding.codeBytes,
      queryBytes: this.#encoding.queryBytes,
      dataType: dataTypeNumbers[dataType],
      m,
      m0,
      efConstruction,
      efMax,
      buildMode: buildModes[metric],
      memoryBytesMax,
    });
  }

  #vector(ordinal: number): Float32Array {
    const vector = this.#options.vectorOf(ordinal);
    return vector instanceof Float32Array ? vector : readFloats(vector);
  }

  #insert(ordinal: number, vector: Float32Array): void {
    const { seed, m, levelsMax } = this.#options;
    const graph = this.#built();
    const level = levelOf(ordinal, seed, m, levelsMax);
    const node = graph.make(ordinal, level);
    const { codeBytes } = graph.shape;
    const at = graph.at(node);
    const encoding = this.#encodingOf();
    encoding.encode(vector, graph.bytes.subarray(at, at + codeBytes));
    graph.floats[graph.metaAt(node)] = encoding.lastFactor;
    graph.floats[graph.metaAt(node) + 1] = encoding.lastBias;
    while (this.#kinds.length < graph.units) this.#kinds.push(kinds.free);
    this.#kinds.values[node] = kinds.node;
    for (const unit of graph.upperOf(node)) this.#kinds.values[unit] = kinds.upper;
    this.#nodes.set(ordinal, node);
    graph.kernels.hnswInsert(graph.area, node, level);
  }

  #setQuery(graph: Graph, query: Float32Array): void {
    const at = graph.placeOf("query");
    this.#encodingOf().encodeQuery(query, graph.bytes.subarray(at, at + graph.shape.queryBytes));
  }

  /** The first `wanted` visible ordinals of the beam. */
  #visibleOf(graph: Graph, found: number, wanted: number, visible: Visible): number[] {
    const beam = graph.placeOf("beam") / 4;
    const ordinals: number[] = [];
    for (let i = 0; i < found && ordinals.length < wanted; i++) {
      const ordinal = graph.ordinalOf(graph.words[beam + 2 * i] >>> 1);
      if (ordinal !== absent && (visible === null || visible(ordinal))) ordinals.push(ordinal);
    }
    return ordinals;
  }

  /** Exact scores of the visible of these ordinals, of which the k best are kept. */
  #score(query: Float32Array, ordinals: readonly number[], k: number, visible: Visible): Candidates {
    const seen = visible === null ? ordinals : ordinals.filter(visible);
    const distance = this.metric.exactDistance(query);
    const scores = new Float64Array(seen.length);
    for (let i = 0; i < seen.length; i++) scores[i] = this.metric.score(distance(this.#vector(seen[i]), 0));
    return keepBest(Uint32Array.from(seen), scores, seen.length, k);
  }

  #ordinals(): number[] {
    return Array.from(this.#nodes.entries(), ([ordinal]) => ordinal);
  }

  #beginSweep(): void {
    const graph = this.#built();
    this.#sweepAt = 0;
    this.#sweptDead = this.#dead.length;
    if (this.#kinds.values[graph.entry] !== kinds.node) this.#enterAnew(graph);
  }

  /** The entry point is dead: the living node of the greatest level, the first of them, takes over. */
  #enterAnew(graph: Graph): void {
    let entry: number = absent;
    let top = -1;
    for (const [, node] of this.#nodes.entries()) {
      const level = graph.levelOf(node);
      if (level > top) {
        top = level;
        entry = node;
      }
    }
    graph.entry = entry;
  }

  /** Goes on with a sweep that is on, by so many units. */
  #sweep(units: number): void {
    if (this.#sweepAt < 0) return;
    const graph = this.#built();
    const end = Math.min(graph.units, this.#sweepAt + units);
    for (; this.#sweepAt < end; this.#sweepAt++) {
      if (this.#kinds.values[this.#sweepAt] !== kinds.node) continue;
      graph.kernels.hnswRepair(graph.area, this.#sweepAt, candidatesMax);
    }
    if (this.#sweepAt === graph.units) this.#endSweep(graph);
  }

  /** Frees the units of those that were dead when the sweep began: no living node links to them any more. */
  #endSweep(graph: Graph): void {
    const gone = this.#dead.splice(0, this.#sweptDead);
    this.#sweepAt = -1;
    // Those that died meanwhile may link to the freed ones, and must not lead there.
    const isGone = new Set(gone);
    for (const node of this.#dead) {
      for (let level = graph.levelOf(node); level >= 0; level--) graph.dropLinks(node, level, isGone);
    }
    if (isGone.has(graph.entry)) this.#enterAnew(graph);
    for (const node of gone) {
      for (const unit of [node, ...graph.upperOf(node)]) this.#kinds.values[unit] = kinds.free;
      graph.free(node);
    }
    this.settle();
  }

  #forget(): void {
    this.#nodes.clear();
    this.#kinds.truncate(0);
    this.#dead = [];
    this.#sweepAt = -1;
    this.#settledCount = 0;
    this.#graph?.clear();
  }

  /**
   * Gives an unreached node a link from a reached one, a near one where that can be. A link that is no branch of the tree
   * of ways may be given up for it; so what was reached remains so.
   */
  #adopt(graph: Graph, orphan: number, parents: Uint32Array): void {
    graph.kernels.queryOfNode(orphan, graph.placeOf("query"));
    const found = graph.kernels.hnswSearch(graph.area, 64);
    const beam = graph.placeOf("beam") / 4;
    for (let i = 0; i < found; i++) {
      if (this.#isAdopted(graph, orphan, graph.words[beam + 2 * i] >>> 1, parents)) return;
    }
    // A tree has fewer branches than the nodes have links, two at least each: there is one that can give one up.
    for (const [, node] of this.#nodes.entries()) if (this.#isAdopted(graph, orphan, node, parents)) return;
    invariant(false, `no node has room for a link to ${orphan}`);
  }

  #isAdopted(graph: Graph, orphan: number, near: number, parents: Uint32Array): boolean {
    if (near === orphan || parents[near] === absent || this.#kinds.values[near] !== kinds.node) return false;
    const list = graph.listAt(near, 0);
    const count = graph.words[list];
    parents[orphan] = near;
    // One that was unreached itself a moment ago may have the link already.
    if (graph.linksOf(near, 0).includes(orphan)) return true;
    let place = count;
    if (count === graph.shape.m0) {
      do place--;
      while (place >= 0 && parents[graph.words[list + 1 + place]] === near);
      if (place < 0) {
        parents[orphan] = absent;
        return false;
      }
    }
    graph.words[list + 1 + place] = orphan;
    graph.words[list] = Math.max(count, place + 1);
    return true;
  }
}
