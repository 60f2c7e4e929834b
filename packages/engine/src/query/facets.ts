// How often does each value of a field occur among some records?
//
// A record counts once for each of its different values. Where the field has an index, its pairs of value and record are counted, and only
// records with values of another type are read; without one all records of the set are.

import type { Facets } from "@quiver/protocol/shapes/matching";
import { compareText } from "../base/bytes.ts";
import { type Steps, sortInSteps } from "../base/steps.ts";
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

/** Records that are read, and pairs that are counted, at a step. */
const recordsPerStep = 32;
const pairsPerStep = 4_096;

/** @param among records that the version has. @param limit values that are listed */
export function* facetsOf(
  version: FilteredVersion,
  field: Field,
  among: OrdinalBitmap,
  limit: number,
): Steps<Facets["facets"]> {
  const counts: Counts = new Map();
  const index = indexOfField(version.indexes, field);
  // An index of moments does not have the texts.
  if (index === undefined || index.type === "datetime")
    yield* countRecords(version, field, among.toOrdinals(), counts);
  else yield* countIndexed(version, field, index, among, counts);
  const sorted = yield* sortInSteps(
    [...counts],
    ([a, countA], [b, countB]) => countB - countA || compareValues(a, b),
  );
  return sorted.slice(0, limit).map(([value, count]) => ({ value, count }));
}

function* countIndexed(
  version: FilteredVersion,
  field: Field,
  index: MetadataIndex,
  among: OrdinalBitmap,
  counts: Counts,
): Steps<void> {
  // The records with values of other types are read as a whole.
  const others: number[] = [];
  for (const ordinal of index.others.ordinals()) if (among.has(ordinal)) others.push(ordinal);
  const isOther = new Set(others);
  let pairs = 0;
  for (const [value, ordinal] of index.typed.values.entries()) {
    if (among.has(ordinal) && !isOther.has(ordinal)) count(counts, value);
    if (++pairs % pairsPerStep === 0) yield;
  }
  yield* countRecords(version, field, others, counts);
}

function* countRecords(
  { readTxn }: FilteredVersion,
  field: Field,
  ordinals: Iterable<number>,
  counts: Counts,
): Steps<void> {
  const scanner = new MetadataScanner([field]);
  let values = new Set<Value>();
  const visit = (_field: number, value: FoundValue): void => {
    if (value.type !== "object") values.add(value.type === "string" ? value.text : value[value.type]);
  };
  let read = 0;
  for (const ordinal of ordinals) {
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
    if (++read % recordsPerStep === 0) yield;
  }
}

function count(counts: Counts, value: Value): void {
  const key = value === 0 ? 0 : value;
  counts.set(key, 1 + (counts.get(key) ?? 0));
}

const order = ["number", "string", "boolean"];

function compareValues(a: Value, b: Value): number {
  const types = order.indexOf(typeof a) - order.indexOf(typeof b);
  if (types !== 0) return types;
  return typeof a === "string" ? compareText(a, b as string) : Number(a) - Number(b);
}
