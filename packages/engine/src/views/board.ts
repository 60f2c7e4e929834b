// How do other threads learn of the next view without asking for it?
//
// What is posted of one view and of the next is mostly the same: the same memories, tables and definitions. Only numbers differ, such as the
// version, the epoch and how many rows there are. So a thread that has been posted one view (its *shape*) needs only the numbers of the next.
// The owner writes them into shared memory with each publication, and a thread that needs a newer view reads them there. It takes no message,
// and no time of the owner's event loop. Where more than numbers has changed, the board is empty until a thread asks again.
//
//   | sequence | shape, 0: empty | number 0: low, high | number 1: low, high | ...
//
// A sequence lock (Boehm, "Can seqlocks get along with programming language memory models?", 2012): the sequence is odd while the one writer
// writes; who reads another sequence afterwards than before has read nothing. All words are read and written by atomics.
//
// That the numbers are still those of the newest view proves nothing: as with a view that was posted, `withdrawn` and pinning the epoch tell
// whether a search can begin with it (view.ts).

import { compareBytes } from "../base/bytes.ts";

/** Numbers of a view, at most. One dense index has some thirty, and two more for each part of its memory. */
const numbersMax = 1_000;

const sequenceAt = 0;
const shapeAt = 1;
const numbersAt = 2;
const empty = 0;

/** The shape of a posted view, and where the numbers of later ones are. Can be posted. */
export type SharedBoard = { readonly words: Int32Array<SharedArrayBuffer>; readonly shape: number };

/** One number as two words. */
const float = new Float64Array(1);
const halves = new Int32Array(float.buffer);

/** The owner's side. */
export class Board<Posted extends object> {
  readonly #words = new Int32Array(new SharedArrayBuffer(4 * (numbersAt + 2 * numbersMax)));
  #shape: Posted | undefined;
  #number = empty;

  /** The board for a thread that gets `posted`: it can read what has the same shape. */
  of(posted: Posted): SharedBoard {
    if (this.#shape === undefined || numbersOf(posted, this.#shape) === undefined) {
      this.#shape = posted;
      this.#number++;
    }
    return { words: this.#words, shape: this.#number };
  }

  /** Whether a thread may look for the next view. */
  get isRead(): boolean {
    return this.#shape !== undefined;
  }

  /** Puts a view on the board, in place of the one before. */
  put(posted: Posted): void {
    if (this.#shape === undefined) return;
    const numbers = numbersOf(posted, this.#shape);
    if (numbers === undefined || numbers.length > numbersMax) {
      this.clear();
      return;
    }
    Atomics.add(this.#words, sequenceAt, 1);
    Atomics.store(this.#words, shapeAt, this.#number);
    for (const [i, number] of numbers.entries()) {
      float[0] = number;
      Atomics.store(this.#words, numbersAt + 2 * i, halves[0]);
      Atomics.store(this.#words, numbersAt + 2 * i + 1, halves[1]);
    }
    Atomics.add(this.#words, sequenceAt, 1);
  }

  /** Threads ask for the next view. */
  clear(): void {
    this.#shape = undefined;
    Atomics.store(this.#words, shapeAt, empty);
  }
}

/** What is on the board, for a thread that has been posted a view of the same shape; undefined: it has to ask. */
export function readBoard<Posted extends object>(
  { words, shape }: SharedBoard,
  like: Posted,
): Posted | undefined {
  const sequence = Atomics.load(words, sequenceAt);
  if (sequence % 2 !== 0 || Atomics.load(words, shapeAt) !== shape) return undefined;
  let at = numbersAt;
  const next = (): number => {
    halves[0] = Atomics.load(words, at++);
    halves[1] = Atomics.load(words, at++);
    return float[0];
  };
  const read = withNumbers(like, next) as Posted;
  return Atomics.load(words, sequenceAt) === sequence ? read : undefined;
}

/** A copy with other numbers. What is no plain object or array is the same. */
function withNumbers(of: unknown, next: () => number): unknown {
  if (typeof of === "number") return next();
  if (Array.isArray(of)) return of.map((each) => withNumbers(each, next));
  if (!isPlain(of)) return of;
  const copy: Record<string, unknown> = {};
  for (const key of Object.keys(of)) copy[key] = withNumbers(of[key], next);
  return copy;
}

/** The numbers of what is posted, in order; undefined if something else differs from `like`. */
function numbersOf(posted: unknown, like: unknown): number[] | undefined {
  const numbers: number[] = [];
  return isAlike(posted, like, (number) => numbers.push(number) > 0) ? numbers : undefined;
}

/** Whether another thread gets the same from both: the same shared memory, and equal values. @param isEqual compares numbers */
export function isAlike(a: unknown, b: unknown, isEqual: (a: number, b: number) => boolean): boolean {
  if (typeof a === "number" && typeof b === "number") return isEqual(a, b);
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && !a.some((_, i) => !isAlike(a[i], b[i], isEqual));
  // Buffers, memories and modules are themselves alone.
  if (!isPlain(a) || !isPlain(b)) return Object.is(a, b) || isSameArray(a, b);
  const [keys, others] = [Object.keys(a), Object.keys(b)];
  return (
    keys.length === others.length &&
    keys.every((key, i) => key === others[i] && isAlike(a[key], b[key], isEqual))
  );
}

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;

function isSameArray(a: unknown, b: unknown): boolean {
  if (!ArrayBuffer.isView(a) || !ArrayBuffer.isView(b)) return false;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b) || a.byteLength !== b.byteLength) return false;
  if (a.buffer === b.buffer) return a.byteOffset === b.byteOffset;
  // What is not shared is copied when it is posted.
  if (a.buffer instanceof SharedArrayBuffer || b.buffer instanceof SharedArrayBuffer) return false;
  return compareBytes(bytesOf(a), bytesOf(b)) === 0;
}

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);
