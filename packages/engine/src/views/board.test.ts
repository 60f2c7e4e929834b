import fc from "fast-check";
import { expect, test } from "vitest";
import { Board, readBoard } from "./board.ts";

const words = new Int32Array(new SharedArrayBuffer(8));

const posted = (numbers: readonly number[]) => ({
  version: numbers[0],
  epochs: { words },
  rows: [{ first: numbers[1], states: words.buffer }, { first: numbers[2] }],
  floor: undefined,
  name: "cosine",
  codes: Float32Array.of(1, 2),
});

test("a thread reads the numbers of later views from the board, and all else is what it was posted", () => {
  const number = fc.oneof(fc.double(), fc.integer(), fc.maxSafeInteger());
  fc.assert(
    fc.property(fc.array(fc.tuple(number, number, number), { minLength: 1 }), (views) => {
      const board = new Board();
      const first = posted([1, 2, 3]);
      const shared = board.of(first);
      expect(readBoard(shared, first)).toBeUndefined();
      for (const view of views) {
        board.put(posted(view));
        const read = readBoard(shared, first);
        expect(read).toEqual(posted(view));
        expect(read?.epochs.words).toBe(words);
      }
    }),
  );
});

test("a thread asks where more than numbers has changed, and can read the board again when it was posted the new shape", () => {
  const board = new Board<object>();
  const first = posted([1, 2, 3]);
  const shared = board.of(first);
  board.put(posted([4, 5, 6]));
  const second = { ...posted([7, 8, 9]), name: "dot" };
  board.put(second);
  expect(board.isRead).toBe(false);
  expect(readBoard(shared, first)).toBeUndefined();
  const sharedAgain = board.of(second);
  board.put({ ...second, version: 10 });
  expect(readBoard(sharedAgain, second)).toEqual({ ...second, version: 10 });
  expect(readBoard(shared, first)).toBeUndefined();
});

test("threads that were posted different views of one shape read the same board", () => {
  const board = new Board<object>();
  const [first, second] = [posted([1, 2, 3]), posted([4, 5, 6])];
  const [one, other] = [board.of(first), board.of(second)];
  board.put(posted([7, 8, 9]));
  expect(readBoard(one, first)).toEqual(posted([7, 8, 9]));
  expect(readBoard(other, second)).toEqual(posted([7, 8, 9]));
});

test.each([
  ["another memory", { epochs: { words: new Int32Array(new SharedArrayBuffer(8)) } }],
  ["more parts", { rows: [{ first: 1 }] }],
  ["other codes", { codes: Float32Array.of(1, 3) }],
  ["a number instead of none", { floor: 1 }],
  ["another text", { name: "dot" }],
])("%s: the board is empty", (_, change) => {
  const board = new Board<object>();
  const first = posted([1, 2, 3]);
  const shared = board.of(first);
  board.put(first);
  expect(readBoard(shared, first)).toEqual(first);
  board.put({ ...first, ...change });
  expect(readBoard(shared, first)).toBeUndefined();
});

test("who cleared the board has taken back what was on it", () => {
  const board = new Board<object>();
  const first = posted([1, 2, 3]);
  const shared = board.of(first);
  board.put(first);
  board.clear();
  expect(readBoard(shared, first)).toBeUndefined();
});

test("a view of more numbers than fit is not on the board, and the next shape can be", () => {
  const board = new Board<object>();
  const many = { rows: new Array(2_000).fill(1) };
  const shared = board.of(many);
  board.put(many);
  expect(readBoard(shared, many)).toBeUndefined();
  const first = posted([1, 2, 3]);
  const sharedAgain = board.of(first);
  board.put(first);
  expect(readBoard(sharedAgain, first)).toEqual(first);
});

test("nothing is read while the owner writes, nor when it has written meanwhile", () => {
  const board = new Board<object>();
  const first = posted([1, 2, 3]);
  const shared = board.of(first);
  board.put(first);
  Atomics.add(shared.words, 0, 1);
  expect(readBoard(shared, first)).toBeUndefined();
  Atomics.add(shared.words, 0, 1);
  expect(readBoard(shared, first)).toEqual(first);
  // The owner writes while a thread reads the rows.
  const interrupted = {
    ...first,
    get rows() {
      board.put(posted([4, 5, 6]));
      return first.rows;
    },
  };
  expect(readBoard(shared, interrupted)).toBeUndefined();
  expect(readBoard(shared, first)).toEqual(posted([4, 5, 6]));
});
