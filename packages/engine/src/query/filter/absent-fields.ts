// Which fields of a filter does nobody have, and which could have been meant?
//
// A filter on a misspelt field is a valid one that matches nothing, or with `ne` everything. What is absent is known from the indexes of fields,
// and from the records that were read to find the matches. An answer warns of it only where nobody matches (warnings.ts).

import { isMetadataIndex, metadataPrefix } from "@quiverdb/protocol/shapes/index-definition";
import type { Steps } from "../../base/steps.ts";
import { readHead } from "../../collection/head.ts";
import { RecordReader } from "../../collection/record-reader.ts";
import { ordinalKey } from "../../collection/tables.ts";
import { type Filter, type Leaf, leavesOf } from "../../filter/filter.ts";
import { indexOfField } from "../../index/metadata/kind.ts";
import { fieldName, fieldNamed } from "../../metadata/field.ts";
import type { LiveIndexes } from "../../runtime/view.ts";
import { type FilteredVersion, nothingRead, noting, type Reads, readMatches } from "./matching.ts";

/**
 * Names of the metadata fields of a filter at which no record has a value, by the field's index, or because all records were read. Where
 * other conditions left only some to read, nothing is known of a field without an index.
 */
export function absentFields(filter: Filter, indexes: LiveIndexes | undefined, reads: Reads): string[] {
  const absent = new Set<string>();
  for (const { field } of leavesOf(filter)) {
    if (field.record !== undefined) continue;
    const index = indexOfField(indexes, field);
    const isAbsent =
      index === undefined
        ? reads.isAll && reads.count > 0 && !reads.fields.includes(field.name)
        : index.held.count > 0 && index.present.count === 0;
    if (isAbsent) absent.add(field.name);
  }
  return [...absent];
}

/** Records that are read to learn that nobody has a field: ten milliseconds of reading. */
const readMax = 10_000;

/**
 * The same for a filter that nobody matches. Where its other conditions left only some records to read, all are read now, if the collection is
 * small; of a large one, nothing is known of the fields without an index.
 */
export function* absentWhereNoneMatch(
  version: FilteredVersion,
  filter: Filter,
  reads: Reads,
): Steps<string[]> {
  const { indexes, readTxn } = version;
  const isKnown = ({ field }: Leaf) =>
    field.record !== undefined || indexOfField(indexes, field) !== undefined;
  if (reads.isAll || leavesOf(filter).every(isKnown) || readHead(readTxn).live > readMax)
    return absentFields(filter, indexes, reads);
  const all = nothingRead();
  yield* readMatches(noting(version, all), filter, null);
  return absentFields(filter, indexes, all);
}

/** Records whose fields are listed. */
const sampledRecords = 32;
/** Names that are listed, and the length of the longest. */
const fieldsMax = 50;
const fieldLengthMax = 128;

/** Names of fields that records have: those with an index, then those of a few records. */
export function* fieldsOf({ readTxn, indexes }: FilteredVersion): Steps<string[]> {
  const names = new Set<string>();
  for (const name of Object.keys(indexes ?? {}).filter(isMetadataIndex)) {
    const field = fieldNamed(name.slice(metadataPrefix.length));
    if (field !== null && indexOfField(indexes, field)?.present.count) names.add(field.name);
  }
  for (const key of [...readTxn.keys("records", { start: ordinalKey(0), limit: sampledRecords })]) {
    const stored = readTxn.get("records", key);
    const metadata = stored && new RecordReader(stored).metadataJson;
    if (metadata) addNames(JSON.parse(metadata), [], names);
    yield;
  }
  return [...names].slice(0, fieldsMax);
}

/** Adds the fields of a value, with the keys that lead to it: where its objects end. */
function addNames(value: unknown, keys: readonly string[], names: Set<string>): void {
  if (Array.isArray(value)) for (const element of value) addNames(element, keys, names);
  else if (typeof value === "object" && value !== null)
    for (const [key, inner] of Object.entries(value)) addNames(inner, [...keys, key], names);
  else if (value !== null) {
    const name = fieldName(keys);
    if (name.length <= fieldLengthMax && names.size < fieldsMax) names.add(name);
  }
}
