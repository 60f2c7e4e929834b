// What is probably wrong with a filter that no record matches?
//
// Nothing is looked for where a record matches, so that such a search costs what it did before; the set of its matches is known then, and its
// size is one comparison. Of an empty set the reasons are known for nothing, except that a small collection may be read once
// more for a filter and version.
//
// A condition is named only if it must hold, and no record can satisfy it; of several on one field with the same mistake, the first:
//
//   absent_field     no record has a value at the field
//   type_mismatch    the field is declared with another type than all that it is compared with
//
// Right are, and so never named: conditions under a negation (`not`, `ne`, `nin`, `exists: false`), which hold where the field is absent; `exists`,
// which asks just this; a filter that some record matches, by an alternative in `or` or by values that are not of the declared type; and any
// filter of an empty collection. A caller that sees only some records gets no warnings: they would tell of others. Facets of all records warn
// of a field without values in the same way.

import { limits } from "@quiverdb/protocol/limits";
import { nearestName } from "@quiverdb/protocol/nearest-name";
import { isMetadataIndex, metadataPrefix } from "@quiverdb/protocol/shapes/index-definition";
import type { Warning } from "@quiverdb/protocol/shapes/warning";
import type { Steps } from "../../base/steps.ts";
import { type IndexDefinitions, readIndexDefinitions } from "../../collection/apply.ts";
import { readHead } from "../../collection/head.ts";
import type { KeyFilter } from "../../collection/key-filter.ts";
import { RecordReader } from "../../collection/record.ts";
import { ordinalKey } from "../../collection/tables.ts";
import { type FieldType, scalarTypeOf } from "../../filter/condition.ts";
import { affirmedLeavesOf, type Filter, type Leaf, leavesOf } from "../../filter/filter.ts";
import { isKeyOfQdrant } from "../../filter/read-filter.ts";
import { indexOfField } from "../../index/field-index.ts";
import type { OrdinalBitmap } from "../../index/ordinal-bitmap.ts";
import { type Field, fieldName, fieldNamed } from "../../metadata/field.ts";
import type { LiveIndexes } from "../../views/view.ts";
import {
  type FilteredVersion,
  nothingRead,
  noting,
  type Reads,
  readMatches,
  visibleMatches,
} from "./matching.ts";

/** The matching records that the version sees, and the warnings where there are none. */
export type Found = { readonly set: OrdinalBitmap } & Warned;
type Warned = { readonly warnings: readonly Warning[] };

/** What an answer has of the warnings: nothing, if there are none. */
export const told = (found: Warned | null): { warnings?: Warning[] } =>
  found === null || found.warnings.length === 0 ? {} : { warnings: [...found.warnings] };

/** @param filter of the caller, together with that of its rows. @param keyFilter null: the caller sees all records */
export function* findVisible(
  version: FilteredVersion,
  filter: Filter,
  keyFilter: KeyFilter | null,
): Steps<Found> {
  const reads = nothingRead();
  const set = yield* visibleMatches(noting(version, reads), filter);
  if (set.count > 0 || keyFilter !== null) return { set, warnings: [] };
  const absent = yield* absentWhereNoneMatch(version, filter, reads);
  return { set, warnings: yield* warningsOf(version, filter, absent) };
}

/** @param filter that no record matches. @param absent of its fields, those that nobody has */
export function* warningsOf(
  version: Pick<FilteredVersion, "readTxn" | "ordinalEnd" | "indexes">,
  filter: Filter,
  absent: readonly string[],
): Steps<Warning[]> {
  /** By mistake and field. */
  const warnings = new Map<string, Warning>();
  const add = ({ name }: Field, warning: Warning) => {
    const mistake = `${warning.code} ${name}`;
    if (!warnings.has(mistake)) warnings.set(mistake, warning);
  };
  const definitions = readIndexDefinitions(version.readTxn);
  let known: readonly string[] | undefined;
  for (const leaf of affirmedLeavesOf(filter)) {
    const { field, condition } = leaf;
    if (field.record !== undefined || condition.types === null) continue;
    if (warnings.size === limits.warningsMax) break;
    if (absent.includes(field.name)) {
      known ??= yield* fieldsOf(version);
      add(field, absentField(field, leaf.places.field, known));
    } else {
      const type = typeOf(definitions, field.name);
      const isOther = !condition.types.some(
        (compared) => type === undefined || compared === scalarTypeOf[type],
      );
      if (type !== undefined && condition.types.length > 0 && isOther) add(field, typeMismatch(leaf, type));
    }
  }
  return [...warnings.values()];
}

/** @param absent of the fields whose values are counted in all records, those that have none, with their places in the request */
export function* facetWarnings(
  version: FilteredVersion,
  absent: readonly (readonly [Field, string])[],
): Steps<Warning[]> {
  if (absent.length === 0) return [];
  const known = yield* fieldsOf(version);
  return absent.map(([field, path]) => absentField(field, path, known));
}

const typeOf = (definitions: IndexDefinitions, field: string): FieldType | undefined =>
  definitions[`${metadataPrefix}${field}`]?.type;

/** Names that a message has. */
const namedMax = 10;

function absentField(field: Field, path: string, known: readonly string[]): Warning {
  const nearest = nearestName(field.name, known);
  const meant = nearest === undefined ? "" : ` (did you mean ${nearest}?)`;
  const form = isKeyOfQdrant(field.name)
    ? ' The condition {"key": "n", "range": {"gt": 1}} of Qdrant is written {"n": {"gt": 1}} here.'
    : "";
  const more = known.length > namedMax ? ` and ${known.length - namedMax} more` : "";
  const others = known.length === 0 ? "" : ` Records have: ${known.slice(0, namedMax).join(", ")}${more}.`;
  const message = `No record was found with a field ${JSON.stringify(field.name)}${meant}.${others}${form}`;
  return { code: "absent_field", path, message };
}

function typeMismatch({ field, condition, places }: Leaf, type: FieldType): Warning {
  const compared = (condition.types ?? []).map((one) => `a ${one}`).join(" or ");
  const message = `The field ${JSON.stringify(field.name)} is declared as ${type}, and compared with ${compared}: types do not mix, so that none of its values matches. Compare it with a ${scalarTypeOf[type]}.`;
  return { code: "type_mismatch", path: places.operand, message };
}

// ---- Which fields of a filter does nobody have, and which could have been meant?
//
// A filter on a misspelt field is a valid one that matches nothing, or with `ne` everything. What is absent is known from the indexes of fields,
// and from the records that were read to find the matches. An answer warns of it only where nobody matches.

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
