import { pageBytes } from "@quiverdb/kernels/loader";
import { recordSumsBytes, scratch } from "@quiverdb/kernels/postings";
import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, test, vi } from "vitest";
import { posted } from "../../../test/index/inverted/versioned.ts";
import { Arena, arenaBytes } from "./arena.ts";
import { ArenaReader } from "./segment-memory.ts";

test("allocations leave out the pages that other threads let the memory grow by, whenever they do", () => {
  const next = randomNumbers(1);
  const integer = (end: number) => Math.floor(next() * end);
  for (let round = 0; round < 30; round++) {
    const arena = new Arena();
    const readers: ArenaReader[] = [];
    const allocations = new Map<number, { bytes: number; mark: number }>();
    let mark = 0;
    for (let act = 0; act < 60; act++) {
      const drawn = integer(10);
      if (drawn === 0 && readers.length < 8)
        readers.push(new ArenaReader(posted(arena.shared), 1 + readers.length));
      else if (drawn === 1 && readers.length > 0)
        expect(readers[integer(readers.length)].reserve(100 + integer(5_000), 10)).toBe(true);
      else if (drawn < 4 && allocations.size > 0) {
        const [at] = [...allocations.keys()].slice(integer(allocations.size));
        arena.free(at);
        allocations.delete(at);
      } else {
        const bytes = 1 + integer(3 * pageBytes);
        const at = arena.allocate(bytes);
        if (at === undefined) throw new Error("the arena is full");
        arena.bytes.fill(++mark % 251, at, at + bytes);
        allocations.set(at, { bytes, mark: mark % 251 });
      }
      arena.check();
    }
    // Every reader may write all of its scratch memory.
    for (const [i, reader] of readers.entries()) {
      const at = reader.field("recordSums") || reader.field("sums");
      reader.bytes.fill(252 + (i % 3), at, at + 4 * 4_096);
      reader.bytes.fill(252 + (i % 3), reader.hiddenAt, reader.hiddenAt + 8_192);
    }
    for (const [at, { bytes, mark: written }] of allocations)
      expect(arena.bytes.subarray(at, at + bytes).every((byte) => byte === written)).toBe(true);
    expect(arena.takenBytes).toBeLessThanOrEqual(arena.memoryBytes);
  }
});

test("sums that got their memory without candidates are not used, and those that get both are zero", () => {
  const arena = new Arena({ memoryBytesMax: 60 * pageBytes });
  expect(arena.reserveRecords(4_096)).toBe(true);
  const large = arena.allocate(recordSumsBytes(65_536)) as number;
  for (let bytes = 16 * pageBytes; bytes >= 64; bytes /= 2) while (arena.allocate(bytes) !== undefined);
  arena.bytes.fill(1, large, large + recordSumsBytes(65_536));
  arena.free(large);
  // The sums fit into the gap; behind all that is allocated, there is no room for the candidates.
  expect(arena.reserveRecords(65_536)).toBe(false);
  expect(arena.reserveRecords(4_096)).toBe(true);
  const from = arena.field("recordSums");
  expect(arena.bytes.subarray(from, from + recordSumsBytes(8_192)).every((byte) => byte === 0)).toBe(true);
  arena.check();
});

test("a slot's scratch memory is taken over, all zeros, by the next thread that has it; it grows in a range of its own", () => {
  const arena = new Arena();
  const first = new ArenaReader(posted(arena.shared), 3);
  const { memoryBytes } = arena;
  expect(memoryBytes).toBeGreaterThan(arenaBytes([]));
  first.bytes.fill(7, first.field("sums"), first.field("sums") + 16_384);
  const second = new ArenaReader(posted(arena.shared), 3);
  expect(second.scratch).toBe(first.scratch);
  expect(
    second.bytes.subarray(second.field("sums"), second.field("sums") + 16_384).every((byte) => byte === 0),
  ).toBe(true);
  expect(arena.memoryBytes).toBe(memoryBytes);
  const other = new ArenaReader(posted(arena.shared), 4);
  expect(other.scratch).not.toBe(first.scratch);
  const small = second.field("terms");
  expect(second.reserve(64, 1_024)).toBe(true);
  expect(second.field("terms")).toBe(small);
  expect(second.reserve(65, 10)).toBe(true);
  const large = second.field("terms");
  expect(large).not.toBe(small);
  expect(second.reserveRecords()).toBe(true);
  expect(second.reserve(2_048, 20_000)).toBe(true);
  expect(second.field("terms")).toBe(large);
  // The next thread has both ranges, and gets a larger second one when it needs it.
  const third = new ArenaReader(posted(arena.shared), 3);
  expect(third.reserveRecords()).toBe(true);
  expect(third.field("terms")).toBe(large);
  third.words.fill(1, third.field("recordSums") >>> 2, (third.field("recordSums") >>> 2) + 65_536);
  expect(third.reserve(10_000, 10)).toBe(true);
  expect(third.field("terms")).not.toBe(large);
  const sums = third.field("recordSums") >>> 2;
  expect(third.words.subarray(sums, sums + 65_536).every((word) => word === 0)).toBe(true);
  expect(third.words[(third.scratch + scratch.k) >>> 2]).toBe(0);
  expect(() => new ArenaReader(arena.shared, 64)).toThrow("has no reader slot 64");
});

test("pages that another thread takes between the growth of the memory and the owner's look at it stay that thread's", () => {
  const arena = new Arena();
  const shared = posted(arena.shared);
  const { grow } = WebAssembly.Memory.prototype;
  let reader: ArenaReader | undefined;
  const growing = vi.spyOn(WebAssembly.Memory.prototype, "grow").mockImplementation(function (
    this: WebAssembly.Memory,
    pages,
  ) {
    growing.mockRestore();
    const begin = grow.call(this, pages);
    reader = new ArenaReader(shared, 1);
    return begin;
  });
  const at = arena.allocate(2 * pageBytes) as number;
  expect(reader?.scratch).toBeGreaterThan(at);
  const behind = arena.allocate(8 * pageBytes) as number;
  arena.check();
  expect(behind).toBeGreaterThan((reader as ArenaReader).hiddenAt);
  expect(behind).toBeGreaterThan((reader as ArenaReader).field("heap"));
});
