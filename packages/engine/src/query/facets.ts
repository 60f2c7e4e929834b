// How often does each value of a field occur among some records?
//
// A record counts once for each of its different values. Where the field has an index, its pairs of value and record are counted, and only
// records with values of another type are read; without one all records of the set are.

import type { FacetValues } from "@quiverdb/protocol/shapes/matching";
import { compareText } from "../base/bytes.ts";
import type { Steps } from "../base/steps.ts";
import { Least } from "../base/top-k.ts";
import { RecordReader } from "../collection/record.ts";
import { ordinalKey } from "../collection/tables.ts";
import { type FieldIndex, indexOfField } from "../index/field-index.ts";
import type { OrdinalBitmap } from "../index/ordinal-bitmap.ts";
import type { Field } from "../metadata/field.ts";
import { type FoundValue, MetadataScanner } from "../metadata/scan.ts";
import type { FilteredVersion } from "./filter/matching.ts";

type Value = string | number | boolean;
type Counts = Map<Value, number>;

/** Records that are read, and pairs of value and ordinal, or values, that are counted, at a step. */
const recordsPerStep = 32;
const pairsPerStep = 4_096;

/**
 * The values of each field.
 * @param among records that the version has. @param limit values that are listed of each
 */
export function* facetsOf(
  version: FilteredVersion,
  fields: readonly Field[],
  among: OrdinalBitmap,
  limit: number,
): Steps<FacetValues[]> {
  const listed = fields.map(() => new Listed(limit));
  const indexes = fields.map((field) => countable(indexOfField(version.indexes, field)));
  const read = fields.flatMap((field, i) =>
    indexes[i] === undefined ? [{ field, listed: listed[i], counts: new Map() as Counts }] : [],
  );
  if (read.length > 0) yield* countRecords(version, read, among.ordinals());
  for (const { counts, listed } of read) yield* listed.add(counts);
  const facets: FacetValues[] = [];
  for (const [i, field] of fields.entries()) {
    const index = indexes[i];
    if (index !== undefined) yield* countIndexed(version, field, index, among, listed[i]);
    facets.push(yield* listed[i].facets());
  }
  return facets;
}

/** An index that has the values of its field; one of moments does not have the texts. */
const countable = (index: FieldIndex | undefined): FieldIndex | undefined =>
  index?.type === "datetime" ? undefined : index;

/** A field whose values are counted by reading records. */
type Counted = { readonly field: Field; readonly counts: Counts };

/** The most frequent of all values that are added. */
class Listed {
  readonly #most: Least<readonly [value: Value, count: number]>;
  #steps = 0;

  constructor(limit: number) {
    this.#most = new Least(limit, compareCounted);
  }

  /** Adds values with their counts. No value may be added twice. */
  *add(counts: Counts): Steps<void> {
    for (const counted of counts) {
      if (this.#most.offer(counted)) yield* this.#most.cut();
      if (++this.#steps % pairsPerStep === 0) yield;
    }
  }

  *facets(): Steps<FacetValues> {
    return (yield* this.#most.take()).map(([value, count]) => ({ value, count }));
  }
}

function* countIndexed(
  version: FilteredVersion,
  field: Field,
  { others, typed }: FieldIndex,
  among: OrdinalBitmap,
  listed: Listed,
): Steps<void> {
  // The records with values of other types are read as a whole.
  const read: Counts = new Map();
  if (others.count > 0) yield* countRecords(version, [{ field, counts: read }], others.ordinals(), among);
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

/** Counts the values of all fields in one pass. @param among only these of the records are counted; absent: all */
function* countRecords(
  { readTxn }: FilteredVersion,
  counted: readonly Counted[],
  ordinals: Iterable<number>,
  among?: OrdinalBitmap,
): Steps<void> {
  const inMetadata = counted.filter(({ field }) => field.record === undefined);
  const scanner = new MetadataScanner(inMetadata.map(({ field }) => field));
  const found = inMetadata.map(() => new Set<Value>());
  const visit = (field: number, value: FoundValue): void => {
    if (value.type !== "object") found[field].add(value.type === "string" ? value.text : value[value.type]);
  };
  let [passed, read] = [0, 0];
  for (const ordinal of ordinals) {
    if (++passed % pairsPerStep === 0) yield;
    if (among?.has(ordinal) === false) continue;
    if (++read % recordsPerStep === 0) yield;
    const stored = readTxn.get("records", ordinalKey(ordinal));
    if (stored === undefined) continue;
    const record = new RecordReader(stored);
    if (inMetadata.length > 0 && record.metadataBytes !== null) scanner.scan(record.metadataBytes, visit);
    for (const [i, { counts }] of inMetadata.entries()) {
      for (const value of found[i]) count(counts, value);
      found[i].clear();
    }
    for (const { field, counts } of counted) {
      const id = field.record && (field.record === "id" ? record.id : record.documentId);
      if (id != null) count(counts, id);
    }
  }
}

function count(counts: Counts, value: Value, more = 1): void {
  const key = value === 0 ? 0 : value;
  counts.set(key, more + (counts.get(key) ?? 0));
}

/** Which of two values is listed first: the more frequent one. */
export const compareCounted = (
  [a, countA]: readonly [Value, number],
  [b, countB]: readonly [Value, number],
): number => countB - countA || compareValues(a, b);

const order = ["number", "string", "boolean"];

function compareValues(a: Value, b: Value): number {
  const types = order.indexOf(typeof a) - order.indexOf(typeof b);
  if (types !== 0) return types;
  return typeof a === "string" ? compareText(a, b as string) : Number(a) - Number(b);
}
