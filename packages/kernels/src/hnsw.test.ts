// Do the graph's kernels compute what their reference implementations compute, in all builds?

import { describe, expect, test } from "vitest";
import { hasRelaxedSimd, header, instantiateHnsw } from "./hnsw.ts";
import {
  keyOfNode,
  mergeOf,
  queryOf,
  type ReferenceType,
  referenceBlocks,
  referenceTypes,
  unfold,
} from "./hnsw-reference.ts";
import { randomNumbers } from "./random.ts";

const memory = new WebAssembly.Memory({ initial: 8, maximum: 8, shared: true });
const words = new Uint32Array(memory.buffer);
const floats = new Float32Array(memory.buffer);
const signed = new Int32Array(memory.buffer);
const [queryAt, idsAt, keysAt, nodesAt] = [1_024, 16_384, 16_640, 32_768];
const nodeCount = 7;
const dimensions = [...Array.from({ length: 40 }, (_, i) => i + 1), 100, 128, 768, 1_000, 1_536];

/** Creates nodes with random codes; at the extremes every value is the smallest or the greatest. */
function fill(type: ReferenceType, dimension: number, isExtreme: boolean, seed: number) {
  const next = randomNumbers(seed);
  const { values: blockValues, bytes } = referenceBlocks[type];
  const blocks = Math.ceil(dimension / blockValues);
  const codeBytes = type === "u8" ? 4 * Math.ceil(dimension / 4) : blocks * bytes;
  const isFloat = type === "f32" || type === "f16";
  const queryBytes = 16 + blocks * blockValues * (isFloat ? 4 : 1);
  const slotBytes = 128 * Math.ceil((codeBytes + 20) / 128);
  words[header.codeBytes / 4] = codeBytes;
  words[header.queryBytes / 4] = queryBytes;
  words[header.dataType / 4] = referenceTypes.indexOf(type);
  words[header.slotBytes / 4] = slotBytes;
  words[header.nodesAt / 4] = nodesAt;
  const draw = () => (isExtreme ? Math.round(next()) : next());
  const nodes = Array.from({ length: nodeCount }, (_, node) => {
    const at = nodesAt + node * slotBytes;
    const code = new Uint8Array(memory.buffer, at, codeBytes);
    for (let i = 0; i < codeBytes; i++) code[i] = type === "u8" ? 1 + Math.floor(126 * draw()) : 255 * draw();
    // No infinities and no NaN.
    if (type === "f16") for (let i = 1; i < codeBytes; i += 2) code[i] &= 0xbf;
    if (type === "f32") {
      for (let i = 0; i < codeBytes / 4; i++) floats[at / 4 + i] = 2 * draw() - 1;
    }
    // The values of a node of length zero are among them.
    const factor = Math.fround(node === 3 ? 0 : next());
    const bias = Math.fround(20 * next());
    floats[(at + codeBytes) / 4] = factor;
    floats[(at + codeBytes) / 4 + 1] = bias;
    return { levels: unfold(type, code), factor, bias };
  });
  const values = isFloat
    ? new Float32Array(memory.buffer, queryAt + 16, blocks * blockValues)
    : new Int8Array(memory.buffer, queryAt + 16, blocks * blockValues);
  for (let i = 0; i < values.length; i++)
    values[i] = isFloat
      ? 2 * draw() - 1
      : isExtreme
        ? next() < 0.1
          ? 127
          : -128
        : Math.floor(255 * next()) - 128;
  // Bytes after a u8 code are not values.
  if (type === "u8") values.fill(0, codeBytes);
  return { nodes, values };
}

describe.each([
  { debug: false, plain: false },
  { debug: true, plain: false },
  { debug: false, plain: true },
  { debug: true, plain: true },
])("build with %o", (build) => {
  // A machine without relaxed SIMD has the plain builds alone.
  describe.skipIf(!build.plain && !hasRelaxedSimd)("", () => {
    const kernels = hasRelaxedSimd || build.plain ? instantiateHnsw(memory, build) : undefined;

    test.each(referenceTypes)("%s: keys and query codes equal their reference implementations", (type) => {
      if (kernels === undefined) return;
      for (const dimension of dimensions) {
        for (const isExtreme of [false, true]) {
          const { nodes, values } = fill(type, dimension, isExtreme, dimension);
          for (let i = 0; i < 8; i++) words[idsAt / 4 + i] = Math.min(i, nodeCount - 1);
          const keys = () => {
            floats.fill(123, keysAt / 4, keysAt / 4 + 9);
            kernels.keysOf(queryAt, idsAt, nodeCount, keysAt);
            expect(floats[keysAt / 4 + 8]).toBe(123);
            return [...floats.subarray(keysAt / 4, keysAt / 4 + nodeCount)].map((key) => key + 0);
          };
          for (const weight of [0, 1]) {
            const query = { scale: Math.fround(0.7), offset: 12_345, weight, values };
            floats[queryAt / 4] = query.scale;
            signed[queryAt / 4 + 1] = query.offset;
            floats[queryAt / 4 + 2] = weight;
            expect(keys()).toEqual(nodes.map((node) => keyOfNode(type, query, node) + 0));
          }
          for (const buildMode of [0, 1]) {
            words[header.buildMode / 4] = buildMode;
            for (const [number, node] of nodes.entries()) {
              kernels.queryOfNode(number, queryAt);
              const query = queryOf(type, buildMode, node);
              expect([...values].map((value) => value + 0)).toEqual(
                Array.from(values, (_, i) => (query.values[i] ?? 0) + 0),
              );
              expect(floats[queryAt / 4]).toBe(query.scale);
              expect(signed[queryAt / 4 + 1]).toBe(query.offset + 0);
              expect(keys()).toEqual(nodes.map((other) => keyOfNode(type, query, other) + 0));
            }
          }
        }
      }
    });

    test("a merged beam equals its reference implementation's, and nothing after its end is written", () => {
      if (kernels === undefined) return;
      const next = randomNumbers(5);
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
});
