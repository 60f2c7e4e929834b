// How are all matching records read page by page, while others are written?
//
// In the order of ids, or of the values of a field with ties by id. A cursor says after which id, or which value and id, the next page goes
// on, and nothing else: it needs no state and survives writes and restarts. Every record that is there all the time is on exactly one page;
// one that is replaced meanwhile may be on two if its value changes, or on none.

import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import { compareText, concatenated, readU32Key, text, utf8 } from "../base/bytes.ts";
import { type Steps, sortInSteps } from "../base/steps.ts";
import { Greatest } from "../base/top-k.ts";
import { RecordReader } from "../collection/record-reader.ts";
import { ordinalKey } from "../collection/tables.ts";
import type { FieldType } from "../filter/condition.ts";
import { indexOfField } from "../index/metadata/kind.ts";
import { ValueFinder } from "../index/metadata/metadata-index.ts";
import type { OrdinalBitmap } from "../index/ordinal-bitmap.ts";
import type { Field } from "../metadata/field.ts";
import type { FilteredVersion } from "./filter/matching.ts";

/** The order of a scroll. */
export type Order = { readonly field: Field; readonly type: FieldType; readonly isDescending: boolean };

/** Where the page before ended. */
type Cursor = { readonly id: string; readonly value?: number | string };

export type Page = { readonly ordinals: readonly number[]; readonly nextCursor: string | null };

type Place = { readonly ordinal: number; readonly id: string };

/** Records that are read, and ids that are walked, at a step. */
const recordsPerStep = 32;
const idsPerStep = 256;
/** If the set has no more records than this many pages, their ids are read and sorted; otherwise all ids are walked in order. */
const sortedPages = 20;

/** A page in the order of ids. @param among matching records of the version; null: all */
export function* pageById(
  version: FilteredVersion,
  among: OrdinalBitmap | null,
  limit: number,
  given: string | null,
): Steps<Page> {
  const after = given === null ? null : cursorOf(given, null).id;
  const isFew = among !== null && among.count <= sortedPages * limit;
  const places = yield* isFew
    ? sortedIds(version, among.toOrdinals(), after)
    : walkedIds(version, among, after, limit + 1);
  return pageOf(places, limit, ({ id }) => ({ id }));
}

function* sortedIds(
  version: FilteredVersion,
  ordinals: Iterable<number>,
  after: string | null,
): Steps<Place[]> {
  const places = (yield* placesOf(version, ordinals)).filter(
    ({ id }) => after === null || compareText(id, after) > 0,
  );
  return yield* sortInSteps(places, (a, b) => compareText(a.id, b.id));
}

function* placesOf({ readTxn }: FilteredVersion, ordinals: Iterable<number>): Steps<Place[]> {
  const places: Place[] = [];
  let read = 0;
  for (const ordinal of ordinals) {
    const stored = readTxn.get("records", ordinalKey(ordinal));
    if (stored !== undefined) places.push({ ordinal, id: new RecordReader(stored).id });
    if (++read % recordsPerStep === 0) yield;
  }
  return places;
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

/** A page in the order of a field's values. @param among matching records of the version */
export function* pageByValue(
  version: FilteredVersion,
  among: OrdinalBitmap,
  limit: number,
  given: string | null,
  order: Order,
): Steps<Page> {
  const after = given === null ? null : cursorOf(given, order);
  const keys = yield* new Keys(version, order).read(among);
  const afterKey = after === null ? Number.NEGATIVE_INFINITY : keys.keyOf(after.value as number | string);
  const floor = yield* greatestKey(keys, among, afterKey, after === null, limit + 1);
  const near: number[] = [];
  let tested = 0;
  for (const ordinal of among.toOrdinals()) {
    const key = keys.of(ordinal);
    if (key <= floor && (after === null || key >= afterKey)) near.push(ordinal);
    if (++tested % keysPerStep === 0) yield;
  }
  const places = (yield* placesOf(version, near)).filter(
    ({ ordinal, id }) => after === null || keys.of(ordinal) > afterKey || compareText(id, after.id) > 0,
  );
  const sorted = yield* sortInSteps(
    places,
    (a, b) => compareKeys(keys.of(a.ordinal), keys.of(b.ordinal)) || compareText(a.id, b.id),
  );
  return pageOf(sorted, limit, ({ id, ordinal }) => ({ id, value: keys.valueOf(ordinal) }));
}

/** Keys that are tested at a step. */
const keysPerStep = 8_192;

const compareKeys = (a: number, b: number): number => (a < b ? -1 : a > b ? 1 : 0);

/** The key that so many records behind a key are at, or before; those at the key itself come in addition. */
function* greatestKey(
  keys: Keys,
  among: OrdinalBitmap,
  after: number,
  isFirst: boolean,
  count: number,
): Steps<number> {
  const least = new Greatest(count);
  let offered = 0;
  for (const ordinal of among.toOrdinals()) {
    const key = keys.of(ordinal);
    if (key > after || (isFirst && key === after)) {
      least.offer(-key);
      offered++;
    }
    if (offered % keysPerStep === keysPerStep - 1) yield;
  }
  return offered < count ? Number.POSITIVE_INFINITY : -least.floor;
}

/** The keys by which records are ordered, ascending in either direction; NaN: none. */
class Keys {
  readonly #version: FilteredVersion;
  readonly #order: Order;
  readonly #keys: Float64Array;
  /** Of a `keyword` field: all strings, ascending. A key is a place among them. */
  #strings: string[] = [];

  constructor(version: FilteredVersion, order: Order) {
    this.#version = version;
    this.#order = order;
    this.#keys = new Float64Array(version.ordinalEnd).fill(Number.NaN);
  }

  of(ordinal: number): number {
    return this.#keys[ordinal];
  }

  *read(among: OrdinalBitmap): Steps<this> {
    const index = indexOfField(this.#version.indexes, this.#order.field);
    if (index === undefined || index.type !== this.#order.type) yield* this.#readRecords(among);
    else {
      const { values } = index.typed;
      if ("stringOf" in values)
        yield* this.#rank(Array.from({ length: values.size }, (_, i) => values.stringOf(i)));
      let pairs = 0;
      for (const [value, ordinal] of values.entries()) {
        if (among.has(ordinal)) this.#note(ordinal, value);
        if (++pairs % keysPerStep === 0) yield;
      }
    }
    return this;
  }

  /** The index is not built yet. */
  *#readRecords(among: OrdinalBitmap): Steps<void> {
    const finder = new ValueFinder(this.#order.field, this.#order.type);
    const found: [ordinal: number, values: readonly (string | number | boolean)[]][] = [];
    let read = 0;
    for (const ordinal of among.toOrdinals()) {
      const stored = this.#version.readTxn.get("records", ordinalKey(ordinal));
      if (stored !== undefined)
        found.push([ordinal, finder.find(new RecordReader(stored).metadataBytes).values]);
      if (++read % recordsPerStep === 0) yield;
    }
    if (this.#order.type === "keyword") yield* this.#rank(found.flatMap(([, values]) => values as string[]));
    for (const [ordinal, values] of found) for (const value of values) this.#note(ordinal, value);
  }

  *#rank(strings: string[]): Steps<void> {
    this.#strings = yield* sortInSteps([...new Set(strings)], compareText);
  }

  #note(ordinal: number, value: string | number | boolean): void {
    if (ordinal >= this.#keys.length) return;
    const key = this.keyOf(value);
    if (!(this.#keys[ordinal] <= key)) this.#keys[ordinal] = key;
  }

  /** The key of a value; of a string that no record has any more, a key between those of its neighbours. */
  keyOf(value: string | number | boolean): number {
    const sign = this.#order.isDescending ? -1 : 1;
    if (typeof value !== "string") return sign * Number(value);
    let from = 0;
    let to = this.#strings.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (compareText(this.#strings[middle], value) < 0) from = middle + 1;
      else to = middle;
    }
    return sign * (this.#strings[from] === value ? from : from - 0.5);
  }

  /** What a cursor says of a record's key. */
  valueOf(ordinal: number): string | number {
    const key = this.#order.isDescending ? -this.#keys[ordinal] : this.#keys[ordinal];
    return this.#order.type === "keyword" ? this.#strings[key] : key;
  }
}

function pageOf(places: readonly Place[], limit: number, cursor: (place: Place) => Cursor): Page {
  const ordinals = places.slice(0, limit).map(({ ordinal }) => ordinal);
  if (places.length <= limit) return { ordinals, nextCursor: null };
  return { ordinals, nextCursor: textOf(cursor(places[limit - 1])) };
}

/** JSON has no infinity. */
const infinities: Readonly<Record<string, number>> = {
  "+": Number.POSITIVE_INFINITY,
  "-": Number.NEGATIVE_INFINITY,
};

function textOf({ id, value }: Cursor): string {
  const infinity = Object.keys(infinities).find((sign) => infinities[sign] === value);
  const parts = value === undefined ? [id] : infinity === undefined ? [id, value] : [id, null, infinity];
  return toBase64(utf8(JSON.stringify(parts)));
}

const isId = (text: string): boolean => text.isWellFormed() && utf8(text).length <= limits.idBytesMax;

/** @throws invalid_request if the cursor is none of this order */
function cursorOf(given: string, order: Order | null): Cursor {
  try {
    const [id, value, infinity] = JSON.parse(text(fromBase64(given))) as unknown[];
    const found = typeof infinity === "string" ? infinities[infinity] : value;
    const wanted = order === null ? "undefined" : order.type === "keyword" ? "string" : "number";
    if (typeof id === "string" && typeof found === wanted && isId(id))
      return { id, ...(order && { value: found as number | string }) };
  } catch {
    // It is refused below.
  }
  throw new QuiverError(
    "invalid_request",
    "cursor is none that this order gave; expected the next_cursor of a page with the same order_by. Begin again without a cursor.",
    { path: "cursor" },
  );
}

function toBase64(bytes: Uint8Array): string {
  let characters = "";
  for (const byte of bytes) characters += String.fromCharCode(byte);
  return btoa(characters).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

const fromBase64 = (given: string): Uint8Array =>
  Uint8Array.from(atob(given.replaceAll("-", "+").replaceAll("_", "/")), (character) =>
    character.charCodeAt(0),
  );
