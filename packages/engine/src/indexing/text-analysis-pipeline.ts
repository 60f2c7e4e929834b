// How are texts analysed in other threads, when there are many to be added?
//
//   store --records, in order--> batches, each with a builder thread --analysed--> added to the index, in order
//
// The request thread reads records and adds the results. Builder threads tokenize, stem and count. Batches are few and small, which bounds
// the memory in between and keeps a builder free for others.
//
// A record is read from one read transaction and added later. `close` reports records that were closed in between. They are left out, because no
// view that would see them is published any more (log-cursor.ts).

import { limits } from "@quiverdb/protocol/limits";
import { readU32Key } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import { ordinalKey } from "../collection/tables.ts";
import type { PreparedRecords, StoredRecords } from "../index/kind.ts";
import type { Reader } from "../storage/store.ts";

/** Threads that analyse texts. */
export type Analysts = {
  /** Takes ownership of the memory of the records. */
  readonly prepare: (records: StoredRecords) => Promise<PreparedRecords>;
  /** Called when a batch, or an error, has arrived. */
  readonly onArrival: () => void;
  /** Runs work in the background that never rejects. */
  readonly run: (act: () => Promise<void>) => void;
};

/** Of a batch: records, and bytes after which it is closed. Some ten milliseconds of work. */
const batchRecordsMax = 1_024;
const batchBytes = 2 ** 19;

/** Records added between two checks of the clock. */
const addedPerLook = 16;

/** Terms of them. */
const termsPerLook = 1_000;

type AddAnalysed = (texts: PreparedRecords) => boolean;

type Batch = {
  /** All ordinals of the batch are smaller. */
  readonly end: number;
  texts: PreparedRecords | undefined;
  error: unknown;
};

export class TextAnalysisPipeline {
  readonly #prepare: Analysts["prepare"];
  readonly #onArrival: () => void;
  readonly #run: (act: () => Promise<void>) => void;
  /** In the order of ordinals. */
  readonly #batches: Batch[] = [];
  readonly #closed = new Set<number>();
  /** All records with smaller ordinals were posted. */
  #end: number;
  /** Whether more could be posted, but for the time. */
  #isPosting = false;

  /** @param first the ordinal to begin with */
  constructor({ prepare, onArrival, run }: Analysts, first: number) {
    this.#prepare = prepare;
    this.#onArrival = onArrival;
    this.#run = run;
    this.#end = first;
  }

  /** Whether nothing can be done before `onArrival`, unless there are new rows. */
  get isWaiting(): boolean {
    const [first] = this.#batches;
    const isAway = first !== undefined && first.texts === undefined && first.error === undefined;
    return isAway && !this.#isPosting;
  }

  /** Reports a closed record: if it was read already, it is not added. */
  close(ordinal: number): void {
    if (ordinal < this.#end) this.#closed.add(ordinal);
  }

  /**
   * Posts rows and adds the results, until the time is over or all records below `end` are added.
   * @param add adds the next record and returns true, or takes a step towards it and returns false
   * @param onAdded called with the ordinal below which all records are in the index
   * @returns whether all is added
   */
  step(
    reader: Reader,
    end: number,
    add: AddAnalysed,
    isTimeOver: () => boolean,
    onAdded: (cursor: number) => void,
  ): boolean {
    for (;;) {
      this.#isPosting = this.#canPost(end);
      while (this.#isPosting) {
        this.#handOut(reader, end);
        this.#isPosting = this.#canPost(end);
        if (isTimeOver()) break;
      }
      const [first] = this.#batches;
      if (first === undefined) return true;
      if (first.error !== undefined) throw first.error;
      if (first.texts === undefined || !this.#add(add, first.texts, isTimeOver, onAdded)) return false;
      onAdded(first.end);
      this.#batches.shift();
      if (isTimeOver()) return this.#batches.length === 0 && this.#end >= end;
    }
  }

  #canPost(end: number): boolean {
    return this.#batches.length < limits.analysedBatchesMax && this.#end < end;
  }

  /** @returns whether the whole batch is added */
  #add(
    add: AddAnalysed,
    texts: PreparedRecords,
    isTimeOver: () => boolean,
    onAdded: (cursor: number) => void,
  ): boolean {
    let added = 0;
    let terms = 0;
    const { end } = this.#batches[0];
    while (!texts.isAtEnd) {
      const { ordinal } = texts;
      invariant(ordinal < end, () => `ordinal ${ordinal} is in a batch that ends at ${end}`);
      if (this.#closed.delete(ordinal)) texts.next();
      else if (!add(texts)) {
        if (isTimeOver()) return false;
        continue;
      }
      onAdded(ordinal + 1);
      terms += texts.previousLength;
      if (++added % addedPerLook !== 0 && terms < termsPerLook) continue;
      terms = 0;
      if (isTimeOver()) return texts.isAtEnd;
    }
    return true;
  }

  #handOut(reader: Reader, end: number): void {
    const records: Uint8Array[] = [];
    const ordinals: number[] = [];
    let length = 0;
    let batchEnd = end;
    for (const [key, stored] of reader.entries("records", { start: ordinalKey(this.#end) })) {
      const ordinal = readU32Key(key);
      invariant(ordinal >= this.#end && ordinal < end, `ordinal ${ordinal} is out of order`);
      records.push(stored);
      ordinals.push(ordinal);
      length += stored.length;
      if (records.length < batchRecordsMax && length < batchBytes) continue;
      batchEnd = ordinal + 1;
      break;
    }
    invariant(
      batchEnd > this.#end && batchEnd <= end,
      () => `a batch from ordinal ${this.#end} ends at ${batchEnd}, of ${end}`,
    );
    this.#end = batchEnd;
    const batch: Batch = { end: batchEnd, texts: undefined, error: undefined };
    this.#batches.push(batch);
    this.#run(async () => {
      try {
        batch.texts = await this.#prepare(joined(ordinals, records, length));
      } catch (error) {
        batch.error = error ?? new Error("texts could not be analysed");
      }
      this.#onArrival();
    });
  }
}

function joined(ordinals: readonly number[], records: readonly Uint8Array[], length: number): StoredRecords {
  const bytes = new Uint8Array(length);
  const ends = new Uint32Array(records.length);
  let end = 0;
  for (const [i, record] of records.entries()) {
    bytes.set(record, end);
    end += record.length;
    ends[i] = end;
  }
  invariant(end === length, () => `the records of a batch have ${end} bytes of ${length}`);
  return { ordinals: Uint32Array.from(ordinals), ends, bytes };
}
