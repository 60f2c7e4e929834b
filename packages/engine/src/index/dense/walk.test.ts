// Is a replayed search the kernel's search?

import assert from "node:assert/strict";
import { scratch } from "@quiverdb/kernels/hnsw";
import { randomNumbers } from "@quiverdb/kernels/random";
import { metricNames } from "@quiverdb/protocol/shapes/index-definition";
import { describe, expect, test } from "vitest";
import { add, type Pair, pairOf, remove } from "../../../test/index/graph-pair.ts";
import { OrdinalBitmap } from "../ordinal-bitmap.ts";
import { absent } from "../ordinal-map.ts";
import type { AllowedNodes } from "./allowed-nodes.ts";
import { hnswDataTypes } from "./code-types.ts";
import type { DuplicateVectorsReader } from "./duplicate-vectors.ts";
import type { Graph } from "./graph.ts";
import type { GraphSet } from "./graph-set.ts";
import type { GraphPass } from "./hnsw-search.ts";
import { type GraphWalk, walkOf } from "./walk.ts";

const dimension = 12;

function rowsOf(count: number, seed: number): Float32Array[] {
  const next = randomNumbers(seed);
  return Array.from({ length: count }, () => Float32Array.from({ length: dimension }, () => next() - 0.5));
}

/** A graph with removed nodes. */
function filled(options: Parameters<typeof pairOf>[2], metric: Parameters<typeof pairOf>[1]): Pair {
  const pair = pairOf(dimension, metric, { sampleCount: 100, ...options });
  for (const [i, row] of rowsOf(1_500, 1).entries()) {
    add(pair, i, row);
    if (i % 7 === 6) remove(pair, i - 3);
  }
  return pair;
}

const setOf = ({ hnsw }: Pair): GraphSet => (hnsw as unknown as { graphSet: GraphSet }).graphSet;

/** The beam that a search of the kernel has left. */
function beamOf(graph: Graph, found: number): number[] {
  const at = graph.placeOf("beam") / 4;
  return Array.from({ length: found }, (_, i) => graph.words[at + 2 * i] >>> 1);
}

/** Asserts what is true of every walk. @param reaches whether a node's links can have led to another */
function check(walk: GraphWalk, reaches: (from: number, to: number) => boolean): void {
  expect(new Set(walk.nodes).size).toBe(walk.nodes.length);
  expect(walk.distances).toBeGreaterThanOrEqual(walk.nodes.length);
  for (const [i, from] of walk.from.entries()) {
    assert(from < i);
    if (from >= 0 && !reaches(walk.nodes[from], walk.nodes[i]))
      throw new Error(`node ${walk.nodes[from]} does not lead to ${walk.nodes[i]}`);
  }
  const walked = new Set(walk.nodes);
  for (const node of walk.beam) assert(walked.has(node));
}

describe.each(metricNames)("%s", (metric) => {
  test.each(hnswDataTypes)("the beam of %s codes is that of the kernel, entry by entry", (dataType) => {
    const pair = filled({ dataType, m: 6 }, metric);
    const set = setOf(pair);
    const [graph] = pair.hnsw.graphs;
    const leads = (from: number, to: number) => graph.linksOf(from, 0).includes(to);
    for (const query of rowsOf(12, 2))
      for (const ef of [1, 2, 10, 64, 400]) {
        graph.setQuery(set.encoding, query);
        graph.ban(0xffff_ffff);
        graph.kernels.hnswEnter(graph.scratch);
        const beam = beamOf(graph, graph.kernels.hnswSearch(graph.scratch, ef));
        const walk = walkOf(graph, ef);
        graph.kernels.hnswLeave(graph.scratch);
        expect(walk.beam).toEqual(beam);
        check(walk, leads);
      }
  });

  test.runIf(metric !== "dot_product").each(hnswDataTypes)(
    "and so it is with a cutoff, of %s codes",
    (dataType) => {
      const pair = filled({ dataType, m: 6 }, metric);
      const set = setOf(pair);
      const [graph] = pair.hnsw.graphs;
      const leads = (from: number, to: number) => graph.linksOf(from, 0).includes(to);
      const lengths = new Set<number>();
      // A query that is a vector of the graph, too: some of its codes are nearer than nothing.
      for (const query of [...rowsOf(12, 2), ...rowsOf(3, 1)])
        for (const most of [30, 64, 400])
          for (const least of [10, 29])
            for (const spread of [0, 0.1, 0.5, 30]) {
              graph.setQuery(set.encoding, query);
              graph.ban(0xffff_ffff);
              graph.kernels.hnswEnter(graph.scratch);
              const found = graph.kernels.hnswSearchWithin(graph.scratch, most, least, spread);
              const compared = graph.words[(graph.scratch + scratch.compared) / 4];
              const beam = beamOf(graph, found);
              const walk = walkOf(graph, { most, least, spread });
              const plain = beamOf(graph, graph.kernels.hnswSearch(graph.scratch, least));
              graph.kernels.hnswLeave(graph.scratch);
              expect(walk.beam).toEqual(beam);
              // The node at which the level begins was compared on the level above.
              expect(walk.nodes.length).toBe(compared + 1);
              check(walk, leads);
              expect(beam.length).toBeGreaterThanOrEqual(plain.length);
              expect(beam.length).toBeLessThanOrEqual(most);
              lengths.add(beam.length);
            }
      expect(lengths.size).toBeGreaterThan(10);
    },
  );

  test("and so it is among allowed nodes, whatever their share", () => {
    const pair = filled({ dataType: "u8", m: 6 }, metric);
    const set = setOf(pair);
    const [graph] = pair.hnsw.graphs;
    const next = randomNumbers(3);
    const leads = (from: number, to: number) =>
      [from, ...graph.linksOf(from, 0)].some((way) => graph.linksOf(way, 0).includes(to));
    for (const share of [0.01, 0.1, 0.3, 0.6, 0.95]) {
      const allowed = OrdinalBitmap.of(Uint32Array.from([...pair.rows.keys()].filter(() => next() < share)));
      const nodes = set.reader.nodesOf(allowed, { isEmpty: true } as DuplicateVectorsReader) as AllowedNodes;
      for (const query of rowsOf(6, 4))
        for (const ef of [3, 40, 300]) {
          graph.setQuery(set.encoding, query);
          graph.allow(nodes);
          graph.kernels.hnswEnter(graph.scratch);
          const beam = beamOf(graph, graph.kernels.hnswSearchAllowed(graph.scratch, ef, nodes.seeds.length));
          const walk = walkOf(graph, ef, nodes);
          graph.kernels.hnswLeave(graph.scratch);
          expect(walk.beam).toEqual(beam);
          check(walk, leads);
        }
    }
  });
});

test("a banned node is passed by", () => {
  const pair = filled({ dataType: "f32" }, "euclidean");
  const [graph] = pair.hnsw.graphs;
  const [query] = rowsOf(1, 5);
  graph.setQuery(setOf(pair).encoding, query);
  graph.kernels.hnswEnter(graph.scratch);
  const [banned] = walkOf(graph, 20).beam;
  graph.ban(banned);
  const beam = beamOf(graph, graph.kernels.hnswSearch(graph.scratch, 20));
  const walk = walkOf(graph, 20);
  graph.kernels.hnswLeave(graph.scratch);
  expect(walk.beam).toEqual(beam);
  expect(walk.nodes).not.toContain(banned);
});

test("an empty graph has no walk", () => {
  const pair = filled({ dataType: "f32" }, "euclidean");
  for (const ordinal of [...pair.rows.keys()]) remove(pair, ordinal);
  const walk = pair.hnsw.reader.walk(new Float32Array(dimension), { beam: 10, isAmong: false });
  expect(walk.vectorKeys.filter((vectorKey) => vectorKey !== absent)).toEqual([]);
});

test("a reader tells the pass of its last search: the widened one, one among allowed nodes, or none", () => {
  const pair = filled({ dataType: "f32", efSearch: 200 }, "euclidean");
  const { reader } = pair.hnsw;
  const [query] = rowsOf(1, 6);
  const visible = () => null;
  const begin = (options: Parameters<typeof reader.begin>[3]) => reader.begin(query, 10, visible, options);
  begin({ ef: 33 });
  expect(reader.lastPass).toEqual({ beam: 33, isAmong: false });
  expect(reader.walk(query, { beam: 33, isAmong: false }).vectorKeys.length).toBeGreaterThan(33);
  for (const vectorKey of reader.walk(query, { beam: 200, isAmong: false }).vectorKeys)
    if (vectorKey !== absent) expect(pair.rows.has(vectorKey)).toBe(true);
  begin({});
  expect([reader.chosen, reader.lastPass]).toEqual(["scan all vectors", null]);
  const allowed = OrdinalBitmap.of(Uint32Array.from({ length: 300 }, (_, i) => 5 * i));
  begin({ ef: 40, allowed, way: "graph" });
  expect(reader.lastPass).toMatchObject({ isAmong: true });
  const among = reader.walk(query, reader.lastPass as GraphPass, allowed).vectorKeys;
  expect(among.length).toBeGreaterThan(40);
  // Besides the allowed ones there can be the one that the upper levels lead to.
  expect(among.filter((vectorKey) => !allowed.has(vectorKey)).length).toBeLessThanOrEqual(1);
  begin({ ef: 40, allowed: OrdinalBitmap.of(Uint32Array.of(0, 5, 10)), way: "scan" });
  expect([reader.chosen, reader.lastPass]).toEqual(["scan matching vectors", null]);
});
