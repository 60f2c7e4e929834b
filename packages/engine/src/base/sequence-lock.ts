// How does a thread read shared memory that another one changes now and then, without waiting and without an error?
//
// By a sequence lock. The writer counts its changes: the count is odd while it changes something. A reader takes the count before it reads
// and after it has read; where it was odd, or is another one, the reader throws away what it has read. Readers never write data, so any
// number of them read at a time, and the writer never waits for them.
//
// A second word is the *era*. It changes when the memory itself is exchanged: then what a reader has attached to is not what the writer
// changes any more, and the reader must attach again.

/** Can be posted to a thread. */
export type SharedSequence = Int32Array<SharedArrayBuffer>;

const countAt = 0;
const eraAt = 1;

/** The writer's side. */
export class SequenceLock {
  readonly words: SharedSequence = new Int32Array(new SharedArrayBuffer(8));

  get era(): number {
    return this.words[eraAt];
  }

  /** Readers throw away what they read from now on. */
  begin(): void {
    Atomics.add(this.words, countAt, 1);
  }

  end(): void {
    Atomics.add(this.words, countAt, 1);
  }

  /** Nobody who has attached reads again. */
  exchange(): void {
    Atomics.add(this.words, eraAt, 1);
  }
}

/** The side of a reader that has attached in an era. */
export class SequenceReader {
  readonly #words: SharedSequence;
  readonly #era: number;
  #begun = 0;

  constructor(words: SharedSequence, era: number) {
    this.#words = words;
    this.#era = era;
  }

  /** Whether a read may begin. */
  begin(): boolean {
    this.#begun = Atomics.load(this.#words, countAt);
    return this.#begun % 2 === 0 && Atomics.load(this.#words, eraAt) === this.#era;
  }

  /** Whether nothing was changed since `begin`. Adding zero, because what was read before must not be read after the count. */
  isUnchanged(): boolean {
    return (
      Atomics.add(this.#words, countAt, 0) === this.#begun && Atomics.load(this.#words, eraAt) === this.#era
    );
  }
}
