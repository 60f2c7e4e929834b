import { expect, it } from "vitest";
import { bytesOfFloats } from "../../vector/floats.ts";
import { Block, blockBytesOf, chunkRows, layOutBlock, linked, waiting } from "./row-block.ts";

it("of many rows a thread gets few parts, which follow what the owner adds", () => {
  const layout = layOutBlock(4, 64 * 2 ** 20, 2);
  const owner = new Block(layout);
  const rows = 300 * chunkRows + 5;
  for (let row = 0; row < rows; row++) {
    owner.push(row + 7, bytesOfFloats(Float32Array.of(row, 0, 0, 1)), row / 2);
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
  for (let row = rows; row < rows + 5 * chunkRows; row++)
    owner.push(row + 9, bytesOfFloats(Float32Array.of(row, 0, 0, 1)), 0);
  owner.setState(3, linked);
  const later = Block.attach(owner.shared, 1);
  for (const row of [0, rows - 1]) expect(later.ordinalOf(row)).toBe(row + 7);
  for (const row of [rows, rows + 5 * chunkRows - 1]) expect(later.ordinalOf(row)).toBe(row + 9);
  expect([2, 3].map((row) => later.stateOf(row))).toEqual([waiting, linked]);
});
