// What is probably wrong with a filter that no record matches?
//
// Nothing is looked for where a record matches, so that such a search costs what it did before; the set of its matches is known then, and its
// size is one comparison. Of an empty set the reasons are known for nothing (absent-fields.ts), except that a small collection may be read once
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
import { metadataPrefix } from "@quiverdb/protocol/shapes/index-definition";
import type { Warning } from "@quiverdb/protocol/shapes/warning";
import type { Steps } from "../../base/steps.ts";
import { type IndexDefinitions, readIndexDefinitions } from "../../collection/apply.ts";
import type { Rows } from "../../collection/rows.ts";
import { type FieldType, scalarTypeOf } from "../../filter/condition.ts";
import { affirmedLeavesOf, type Filter, type Leaf } from "../../filter/filter.ts";
import { isKeyOfQdrant } from "../../filter/read-filter.ts";
import type { OrdinalBitmap } from "../../index/ordinal-bitmap.ts";
import type { Field } from "../../metadata/field.ts";
import { absentWhereNoneMatch, fieldsOf } from "./absent-fields.ts";
import { type FilteredVersion, nothingRead, noting, visibleMatches } from "./matching.ts";

/** The matching records that the version sees, and the warnings where there are none. */
export type Found = { readonly set: OrdinalBitmap } & Warned;
type Warned = { readonly warnings: readonly Warning[] };

/** What an answer has of the warnings: nothing, if there are none. */
export const told = (found: Warned | null): { warnings?: Warning[] } =>
  found === null || found.warnings.length === 0 ? {} : { warnings: [...found.warnings] };

/** @param filter of the caller, together with that of its rows. @param rows null: the caller sees all records */
export function* findVisible(version: FilteredVersion, filter: Filter, rows: Rows | null): Steps<Found> {
  const reads = nothingRead();
  const set = yield* visibleMatches(noting(version, reads), filter);
  if (set.count > 0 || rows !== null) return { set, warnings: [] };
  const absent = yield* absentWhereNoneMatch(version, filter, reads);
  return { set, warnings: yield* warningsOf(version, filter, absent) };
}

/** @param filter that no record matches. @param absent of its fields, those that nobody has (absent-fields.ts) */
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
