// How often does each value of a field occur among some records?
//
// A record counts once for each of its different values. Where the field has an index, its pairs of value and record are counted, and only
// records with values of another type are read; without one all records of the set are.

import type { Facets } from "@quiverdb/protocol/shapes/matching";
import { compareText } from "../base/bytes.ts";
import { Least } from "../base/least.ts";
import type { Steps } from "../base/steps.ts";
import { RecordReader } from "../collection/record-reader.ts";
import { ordinalKey } from "../collection/tables.ts";
import { indexOfField } from "../index/metadata/kind.ts";
import type { MetadataIndex } from "../index/metadata/metadata-index.ts";
import type { OrdinalBitmap } from "../index/ordinal-bitmap.ts";
import type { Field } from "../metadata/field.ts";
import { type FoundValue, MetadataScanner } from "../metadata/scan.ts";
import type { FilteredVersion } from "./filter/matching.ts";

type Value = string | number | boolean;
type Counts = Map<Value, number>;

/** Records that are read, and pairs of value and ordinal, or values, that are counted, at a step. */
const recordsPerStep = 32;
const pairsPerStep = 4_096;

/** @param among records that the version has. @param limit values that are listed */
export function* facetsOf(
  version: FilteredVersion,
  field: Field,
  among: OrdinalBitmap,
  limit: number,
): Steps<Facets["facets"]> {
  const listed = new Listed(limit);
  const index = indexOfField(version.indexes, field);
  // An index of moments does not have the texts.
  if (index === undefined || index.type === "datetime") {
    const counts: Counts = new Map();
    yield* countRecords(version, field, among.ordinals(), counts);
    yield* listed.add(counts);
  } else yield* countIndexed(version, field, index, among, listed);
  return yield* listed.facets();
}

/** The most frequent of all values that are added. */
class Listed {
  readonly #most: Least<[value: Value, count: number]>;
  #steps = 0;

  constructor(limit: number) {
    this.#most = new Least(limit, ([a, countA], [b, countB]) => countB - countA || compareValues(a, b));
  }

  /** Adds values with their counts. No value may be added twice. */
  *add(counts: Counts): Steps<void> {
    for (const counted of counts) {
      if (this.#most.offer(counted)) yield* this.#most.cut();
      if (++this.#steps % pairsPerStep === 0) yield;
    }
  }

  *facets(): Steps<Facets["facets"]> {
    return (yield* this.#most.take()).map(([value, count]) => ({ value, count }));
  }
}

function* countIndexed(
  version: FilteredVersion,
  field: Field,
  { others, typed }: MetadataIndex,
  among: OrdinalBitmap,
  listed: Listed,
): Steps<void> {
  // The records with values of other types are read as a whole.
  const read: Counts = new Map();
  if (others.count > 0) yield* countRecords(version, field, others.ordinals(), read, among);
  const counts: Counts = new Map();
  let pairs = 0;
  for (const part of typed.values.parts()) {
    counts.clear();
    for (const [value, ordinal] of part) {
      if (among.has(ordinal) && !others.has(ordinal)) count(counts, value);
      if (++pairs % pairsPerStep === 0) yield;
    }
    if (read.size > 0)
      for (const value of counts.keys()) {
        count(counts, value, read.get(value) ?? 0);
        read.delete(value);
      }
    yield* listed.add(counts);
  }
  yield* listed.add(read);
}

/** @param among only these of the records are counted; absent: all */
function* countRecords(
  { readTxn }: FilteredVersion,
  field: Field,
  ordinals: Iterable<number>,
  counts: Counts,
  among?: OrdinalBitmap,
): Steps<void> {
  const scanner = new MetadataScanner([field]);
  let values = new Set<Value>();
  const visit = (_field: number, value: FoundValue): void => {
    if (value.type !== "object") values.add(value.type === "string" ? value.text : value[value.type]);
  };
  let [passed, read] = [0, 0];
  for (const ordinal of ordinals) {
    if (++passed % pairsPerStep === 0) yield;
    if (among?.has(ordinal) === false) continue;
    if (++read % recordsPerStep === 0) yield;
    const stored = readTxn.get("records", ordinalKey(ordinal));
    if (stored === undefined) continue;
    const record = new RecordReader(stored);
    values = new Set();
    if (field.record === undefined) {
      if (record.metadataBytes !== null) scanner.scan(record.metadataBytes, visit);
    } else {
      const id = field.record === "id" ? record.id : record.documentId;
      if (id !== null) values.add(id);
    }
    for (const value of values) count(counts, value);
  }
}

function count(counts: Counts, value: Value, more = 1): void {
  const key = value === 0 ? 0 : value;
  counts.set(key, more + (counts.get(key) ?? 0));
}

const order = ["number", "string", "boolean"];

function compareValues(a: Value, b: Value): number {
  const types = order.indexOf(typeof a) - order.indexOf(typeof b);
  if (types !== 0) return types;
  return typeof a === "string" ? compareText(a, b as string) : Number(a) - Number(b);
}
