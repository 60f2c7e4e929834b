import { expect, it } from "vitest";
import { bytesOfFloats } from "../../vector/floats.ts";
import { Block, blockBytesOf, chunkRows, layOutBlock } from "./block.ts";

it("of many rows a thread gets few parts, which follow what the owner adds and drops", () => {
  const layout = layOutBlock(4, 64 * 2 ** 20, 2);
  const owner = new Block(layout);
  const rows = 300 * chunkRows + 5;
  for (let row = 0; row < rows; row++) {
    owner.push(row + 7, bytesOfFloats(Float32Array.of(row, 0, 0, 1)));
    owner.setFactor(row, row / 2);
  }
  expect(owner.shared.parts.length).toBeLessThan(15);
  expect(owner.memoryBytes).toBe(blockBytesOf(layout, rows));
  const reader = Block.attach(owner.shared, 1);
  for (const row of [0, chunkRows, 100 * chunkRows - 1, rows - 1])
    expect([reader.ordinalOf(row), reader.factorOf(row), reader.floats[reader.rowAt(row)]]).toEqual([
      row + 7,
      row / 2,
      row,
    ]);
  const { id } = owner;
  while (owner.length > 40 * chunkRows) owner.pop();
  expect(owner.id).not.toBe(id);
  expect(owner.shared.parts.reduce((sum, { byteLength }) => sum + byteLength, 0)).toBeLessThan(
    0.3 * reader.shared.parts.reduce((sum, { byteLength }) => sum + byteLength, 0),
  );
  // What was written takes memory until its part is dropped.
  const held = owner.shared.parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
  owner.shrink();
  expect(owner.memoryBytes).toBeGreaterThanOrEqual(40 * chunkRows * 16 + held);
  for (let row = owner.length; row < 50 * chunkRows; row++)
    owner.push(row + 9, bytesOfFloats(Float32Array.of(row, 0, 0, 1)));
  const later = Block.attach(owner.shared, 1);
  for (const row of [0, 40 * chunkRows - 1]) expect(later.ordinalOf(row)).toBe(row + 7);
  for (const row of [40 * chunkRows, 50 * chunkRows - 1]) expect(later.ordinalOf(row)).toBe(row + 9);
});
