// How are all matching records read page by page, while others are written?
//
// In the order of ids, or of the values of a field with ties by id. The next page goes on after the id, or the value and id, at which the
// page before ended: that needs no state and survives writes and restarts (a cursor is made of it in database/collection/matches.ts).
// Every record that is there all the time is on exactly one page; one that is replaced meanwhile may be on two if its value changes, or on
// none.

import { compareText, concatenated, readU32Key, text, utf8 } from "../base/bytes.ts";
import type { Steps } from "../base/steps.ts";
import { Greatest, Least } from "../base/top-k.ts";
import { RecordReader } from "../collection/record.ts";
import { ordinalKey } from "../collection/tables.ts";
import type { FieldType } from "../filter/condition.ts";
import { type FieldValues, indexOfField, ValueFinder, type ValuePart } from "../index/field-index.ts";
import { BitmapBuilder, type OrdinalBitmap } from "../index/ordinal-bitmap.ts";
import type { Field } from "../metadata/field.ts";
import type { FilteredVersion } from "./filter/matching.ts";

/** The order of a scroll. */
export type Order = { readonly field: Field; readonly type: FieldType; readonly isDescending: boolean };

/** A value by which records are ordered; false and true are 0 and 1. */
export type Value = number | string;

/** Where a page ended: the id of its last record and, in the order of a field, its value. */
export type PageEnd = { readonly id: string; readonly value?: Value };

/** The records of a page, and its end if records come behind it. */
export type Page = {
  readonly ordinals: readonly number[];
  /** Where each of them comes. */
  readonly places: readonly PageEnd[];
  readonly end: PageEnd | null;
};

type Place = PageEnd & { readonly ordinal: number };

/** Records that are read, ids that are walked, and pairs of value and ordinal that are tested, at a step. */
const recordsPerStep = 32;
const idsPerStep = 256;
const pairsPerStep = 8_192;
/** If the set has no more records than this many pages, all of them are read; otherwise the ids, or the index, are walked in order. */
const readPages = 20;

/** A page in the order of ids. @param among matching records of the version; null: all */
export function* pageById(
  version: FilteredVersion,
  among: OrdinalBitmap | null,
  limit: number,
  after: PageEnd | null,
): Steps<Page> {
  const isFew = among !== null && among.count <= readPages * limit;
  if (!isFew) return pageOf(yield* walkedIds(version, among, after?.id ?? null, limit + 1), limit);
  const listing = new Listing(version, byId, after, limit);
  yield* listing.read(among.ordinals());
  return yield* listing.page();
}

/** How records are ordered. */
type Places = {
  /** What of a record, beside its id, says where it comes; null: it is not listed. */
  keyOf(record: RecordReader): Pick<PageEnd, "value"> | null;
  /** Negative: the first of two comes first. */
  readonly compare: (a: PageEnd, b: PageEnd) => number;
};

const byId: Places = { keyOf: () => ({}), compare: (a, b) => compareText(a.id, b.id) };

/** By the first of their values in an order, and by ids where those are equal. */
function byValue({ field, type, isDescending }: Order): Places {
  const finder = new ValueFinder(field, type);
  const sign = isDescending ? -1 : 1;
  return {
    compare: (a, b) => sign * compareValues(a.value as Value, b.value as Value) || compareText(a.id, b.id),
    keyOf(record) {
      const [first, ...others] = finder.find(record.metadataBytes).values.map(plain);
      if (first === undefined) return null;
      const isBefore = (a: Value, b: Value) => sign * compareValues(a, b) < 0;
      return { value: others.reduce((value, other) => (isBefore(other, value) ? other : value), first) };
    },
  };
}

const plain = (value: Value | boolean): Value => (typeof value === "boolean" ? Number(value) : value);

function compareValues(a: Value, b: Value): number {
  if (typeof a === "string") return compareText(a, b as string);
  return a < (b as number) ? -1 : a > (b as number) ? 1 : 0;
}

/** A page of records in some order, of which those are kept that come first behind the cursor. */
class Listing {
  readonly #version: FilteredVersion;
  readonly #order: Places;
  readonly #after: PageEnd | null;
  readonly #limit: number;
  readonly #first: Least<Place>;
  #read = 0;

  constructor(version: FilteredVersion, order: Places, after: PageEnd | null, limit: number) {
    this.#version = version;
    this.#order = order;
    this.#after = after;
    this.#limit = limit;
    this.#first = new Least<Place>(limit + 1, order.compare);
  }

  /** How many more records it takes to make the page, if those that were not read come behind those that were. */
  get missing(): number {
    return this.#first.missing;
  }

  /** Reads records. One that comes before the cursor was on a page before. */
  *read(ordinals: Iterable<number>): Steps<void> {
    for (const ordinal of ordinals) {
      const place = this.#placeOf(ordinal);
      const isBehind =
        place !== null && (this.#after === null || this.#order.compare(place, this.#after) > 0);
      if (isBehind && this.#first.offer(place)) yield* this.#first.cut();
      if (++this.#read % recordsPerStep === 0) yield;
    }
  }

  #placeOf(ordinal: number): Place | null {
    const stored = this.#version.readTxn.get("records", ordinalKey(ordinal));
    if (stored === undefined) return null;
    const record = new RecordReader(stored);
    const key = this.#order.keyOf(record);
    return key && { ordinal, id: record.id, ...key };
  }

  *page(): Steps<Page> {
    return pageOf(yield* this.#first.take(), this.#limit);
  }
}

function* walkedIds(
  { readTxn }: FilteredVersion,
  among: OrdinalBitmap | null,
  after: string | null,
  most: number,
): Steps<Place[]> {
  const places: Place[] = [];
  // The first key behind an id is the id and a zero.
  let start = after === null ? Uint8Array.of(0) : behind(utf8(after));
  for (let walked = idsPerStep; walked === idsPerStep && places.length < most; yield) {
    walked = 0;
    for (const [key, value] of readTxn.entries("ids", { start, limit: idsPerStep })) {
      const ordinal = readU32Key(value);
      if (places.length < most && (among === null || among.has(ordinal)))
        places.push({ ordinal, id: text(key) });
      start = behind(key);
      walked++;
    }
  }
  return places;
}

const behind = (key: Uint8Array): Uint8Array => concatenated([key, Uint8Array.of(0)]);

/** A page in the order of a field's values. @param among matching records of the version. @param after the end of a page in this order */
export function* pageByValue(
  version: FilteredVersion,
  among: OrdinalBitmap,
  limit: number,
  after: PageEnd | null,
  order: Order,
): Steps<Page> {
  const listing = new Listing(version, byValue(order), after, limit);
  const index = indexOfField(version.indexes, order.field);
  if (index === undefined || index.type !== order.type || among.count <= readPages * limit)
    yield* listing.read(among.ordinals());
  else {
    const walk = new Walk(among, order, after?.value ?? null, version.ordinalEnd);
    for (const part of yield* walk.parts(index.typed)) {
      // A record that is met at one of its values may have been on a page before, at another one.
      for (let isOver = false; !isOver && listing.missing > 0; ) {
        const wanted = listing.missing;
        const next = yield* walk.next(part, wanted);
        isOver = next.length === 0 || part.least === part.greatest;
        yield* listing.read(next);
      }
      if (listing.missing === 0) break;
    }
  }
  return yield* listing.page();
}

/** Meets the records of an index in the order of their values, each once. */
class Walk {
  readonly #among: OrdinalBitmap;
  readonly #isDescending: boolean;
  readonly #after: Value | null;
  readonly #met: BitmapBuilder;
  #tested = 0;

  /** @param after a value: those before it are left out. @param end all records of the set have smaller ordinals */
  constructor(among: OrdinalBitmap, { isDescending }: Order, after: Value | null, end: number) {
    this.#among = among;
    this.#isDescending = isDescending;
    this.#after = after;
    this.#met = new BitmapBuilder(end);
  }

  /** The parts of the index that have the values from the cursor's on, in order. */
  *parts({ type, values }: FieldValues): Steps<Iterable<ValuePart<Value | boolean>>> {
    if (type === "keyword") {
      const numbers = yield* values.sorted();
      const [from, end] = this.#range(numbers.length, (text) => values.placeIn(numbers, text));
      return inTurn(from, end, this.#isDescending, (at) => values.part(numbers[at]));
    }
    const all: readonly ValuePart<Value | boolean>[] = values.parts();
    const parts = all.filter(({ least, greatest }) => {
      const last = plain(this.#isDescending ? least : greatest);
      return this.#after === null || !this.#isBefore(last, this.#after);
    });
    return inTurn(0, parts.length, this.#isDescending, (at) => parts[at]);
  }

  /** Which of some sorted strings are not before the cursor's. */
  #range(length: number, placeOf: (text: string) => number): [from: number, end: number] {
    if (typeof this.#after !== "string") return [0, length];
    const at = placeOf(this.#after);
    return this.#isDescending ? [0, Math.min(length, at + 1)] : [at, length];
  }

  /** The next records of a part, in no order: at least as many as wanted, if there are, and with them all that have the same values. */
  *next(part: ValuePart<Value | boolean>, wanted: number): Steps<number[]> {
    const last = yield* this.#lastOf(part, wanted);
    const next: number[] = [];
    for (const [value, ordinal] of part) {
      if (this.#isNext(value, ordinal) && !this.#isBefore(last, plain(value))) {
        this.#met.add(ordinal);
        next.push(ordinal);
      }
      if (++this.#tested % pairsPerStep === 0) yield;
    }
    return next;
  }

  /** The value of the last record that is wanted. */
  *#lastOf(part: ValuePart<Value | boolean>, wanted: number): Steps<Value> {
    const last = plain(this.#isDescending ? part.least : part.greatest);
    if (part.least === part.greatest) return last;
    const sign = this.#isDescending ? 1 : -1;
    const first = new Greatest(wanted);
    for (const [value, ordinal] of part) {
      if (this.#isNext(value, ordinal)) first.offer(sign * Number(value));
      if (++this.#tested % pairsPerStep === 0) yield;
    }
    return first.floor === Number.NEGATIVE_INFINITY ? last : sign * first.floor;
  }

  #isNext(value: Value | boolean, ordinal: number): boolean {
    if (!this.#among.has(ordinal) || this.#met.has(ordinal)) return false;
    return this.#after === null || !this.#isBefore(plain(value), this.#after);
  }

  #isBefore(a: Value, b: Value): boolean {
    const order = compareValues(a, b);
    return this.#isDescending ? order > 0 : order < 0;
  }
}

function* inTurn<T>(from: number, end: number, isDescending: boolean, at: (i: number) => T): Generator<T> {
  for (let i = from; i < end; i++) yield at(isDescending ? from + end - 1 - i : i);
}

function pageOf(places: readonly Place[], limit: number): Page {
  const listed = places.slice(0, limit);
  const ends = listed.map(({ ordinal: _, ...end }): PageEnd => end);
  return {
    ordinals: listed.map(({ ordinal }) => ordinal),
    places: ends,
    end: places.length > limit ? ends[limit - 1] : null,
  };
}

/** Which of two places comes first in an order; null: by id. */
export const comparePlaces = (order: Order | null): ((a: PageEnd, b: PageEnd) => number) =>
  order === null ? byId.compare : byValue(order).compare;
