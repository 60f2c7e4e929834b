// Do the graph's kernels compute what their twins compute, in both builds?

import { describe, expect, test } from "vitest";
import { header, instantiateHnsw } from "./hnsw.ts";
import { keyOfNode, mergeOf, queryOf } from "./hnsw-twins.ts";

/** Deterministic numbers in [0, 1): mulberry32. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const memory = new WebAssembly.Memory({ initial: 8, maximum: 8, shared: true });
const words = new Uint32Array(memory.buffer);
const floats = new Float32Array(memory.buffer);
const [queryAt, idsAt, keysAt, nodesAt] = [1_024, 16_384, 16_640, 32_768];
const r2 = 9;
const nodeCount = 7;

/** Makes nodes of random codes; at the extremes every value is the least or the greatest. */
function fill(dimension: number, isU8: boolean, isExtreme: boolean, seed: number) {
  const next = random(seed);
  const codeBytes = 16 * Math.ceil((dimension * (isU8 ? 1 : 4)) / 16);
  const unitBytes = 128 * Math.ceil((codeBytes + 16) / 128);
  words[header.codeBytes / 4] = codeBytes;
  words[header.isU8 / 4] = Number(isU8);
  words[header.unitBytes / 4] = unitBytes;
  words[header.nodesAt / 4] = nodesAt;
  floats[header.r2 / 4] = r2;
  const draw = () => (isExtreme ? Math.round(next()) : next());
  const nodes = Array.from({ length: nodeCount }, (_, node) => {
    const at = nodesAt + node * unitBytes;
    const code = isU8
      ? new Uint8Array(memory.buffer, at, codeBytes).fill(64)
      : new Float32Array(memory.buffer, at, codeBytes / 4).fill(0);
    for (let i = 0; i < dimension; i++) code[i] = isU8 ? Math.floor(127 * draw()) : 2 * draw() - 1;
    floats[(at + codeBytes) / 4] = 20 * next() - 5;
    return { code, aux: floats[(at + codeBytes) / 4] };
  });
  const query = isU8
    ? new Int8Array(memory.buffer, queryAt, codeBytes).fill(0)
    : new Float32Array(memory.buffer, queryAt, codeBytes / 4).fill(0);
  for (let i = 0; i < dimension; i++) query[i] = isU8 ? Math.floor(255 * draw()) - 128 : 2 * draw() - 1;
  return { nodes, query };
}

describe.each([{ debug: false }, { debug: true }])("build with %o", (options) => {
  const kernels = instantiateHnsw(memory, options);

  test.each([true, false])("7 bits: %s; keys and query codes equal their twins", (isU8) => {
    for (const dimension of [1, 3, 15, 16, 17, 64, 100, 128, 255, 768]) {
      for (const isExtreme of [false, true]) {
        const { nodes, query } = fill(dimension, isU8, isExtreme, dimension);
        for (let i = 0; i < 8; i++) words[idsAt / 4 + i] = Math.min(i, nodeCount - 1);
        for (const mode of [0, 1, 2]) {
          const extra = Math.fround(1.5);
          floats.fill(123, keysAt / 4, keysAt / 4 + 9);
          kernels.keysOf(queryAt, extra, mode, idsAt, nodeCount, keysAt);
          const keys = floats.subarray(keysAt / 4, keysAt / 4 + nodeCount);
          const expected = nodes.map((node) => keyOfNode(query, extra, mode, node, r2));
          expect([...keys].map((key) => key + 0)).toEqual(expected.map((key) => key + 0));
          expect(floats[keysAt / 4 + 8]).toBe(123);
        }
        kernels.queryOfNode(2, queryAt);
        expect([...query]).toEqual([...queryOf(nodes[2].code)]);
      }
    }
  });

  test("a merged beam equals its twin's, and nothing behind its end is written", () => {
    const next = random(5);
    const [beamAt, entriesAt] = [1_024, 16_384];
    const entry = () =>
      BigInt(Math.floor(2 ** 32 * next())) * 2n ** 32n + BigInt(Math.floor(2 ** 32 * next()));
    const values = new BigUint64Array(memory.buffer);
    for (let run = 0; run < 2_000; run++) {
      const ef = 1 + Math.floor(70 * next());
      const found = 1 + Math.floor(ef * next());
      const count = 1 + Math.floor(40 * next());
      const beam = mergeOf([], Array.from({ length: found }, entry), ef).beam;
      const entries = Array.from({ length: count }, entry);
      const guard = 7n;
      values.fill(guard, beamAt / 8, beamAt / 8 + ef + 1);
      values.set(beam, beamAt / 8);
      values.set(entries, entriesAt / 8);
      const place = kernels.hnswMerge(beamAt, found, ef, entriesAt, count);
      const expected = mergeOf(beam, entries, ef);
      expect(place).toBe(expected.place);
      const length = Math.min(ef, found + count);
      expect([...values.subarray(beamAt / 8, beamAt / 8 + length)]).toEqual(expected.beam);
      expect(values[beamAt / 8 + ef]).toBe(guard);
    }
  });
});
