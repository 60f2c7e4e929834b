// Which record does a row of a table make?
//
// Columns with the names of a record's fields are these fields (or those that an option names for them); all others are fields of the
// metadata. A cell without a value is left out. Records are made as JSON text, so that numbers stay exact.

import { parsed } from "../json-values.ts";
import type { FieldNames } from "../record-reason.ts";
import { optionFault } from "./faults.ts";
import { columnFields } from "./formats.ts";
import type { Item } from "./item.ts";

/** The names of columns by the fields that they are, where these differ: `{ id: "sku" }`. */
export type ColumnNames = Readonly<Record<string, string>>;

/** What a column is: a field of the record, or one of its metadata. */
export type Column = { readonly name: string; readonly field: string | null; readonly isText: boolean };

/** The columns of a table, and what it calls the fields that are named otherwise. */
export type Table = { readonly columns: readonly Column[]; readonly names?: FieldNames };

/** @param path of the file, for messages. @throws QuiverError invalid_request if a column is missing, or a name occurs twice */
export function tableOf(names: readonly string[], chosen: ColumnNames, path: string): Table {
  const listed = `Its columns: ${names.slice(0, 50).join(", ")}${names.length > 50 ? ", ..." : ""}.`;
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) throw optionFault(`${path} has several columns named ${JSON.stringify(twice)}.`);
  for (const [field, name] of Object.entries(chosen))
    if (!names.includes(name))
      throw optionFault(
        `${path} has no column ${JSON.stringify(name)} for the option columns.${field}. ${listed}`,
      );
  const fieldOf = (name: string): string | null => {
    const wanted = Object.entries(chosen).find(([, column]) => column === name)?.[0];
    if (wanted !== undefined) return wanted;
    return Object.hasOwn(columnFields, name) && !Object.hasOwn(chosen, name) ? name : null;
  };
  const columns = names.map((name) => {
    const field = fieldOf(name);
    return { name, field, isText: field !== null && columnFields[field] };
  });
  if (!columns.some(({ field }) => field === "id"))
    throw optionFault(`${path} has no column "id"; name the one with the ids: columns.id. ${listed}`);
  return Object.keys(chosen).length === 0 ? { columns } : { columns, names: chosen };
}

/**
 * The item of a row.
 * @param texts JSON texts of the cells, in the order of the columns; undefined: no value
 */
export function rowOf(
  { columns, names }: Table,
  texts: readonly (string | undefined)[],
  place: Pick<Item, "number" | "end" | "lines">,
): Item {
  const members: string[] = [];
  const metadata: string[] = [];
  let id: string | undefined;
  let wrong: string | undefined;
  for (const [i, { name, field, isText }] of columns.entries()) {
    const text = texts[i];
    if (text === undefined) continue;
    if (field === null) metadata.push(`${JSON.stringify(name)}:${text}`);
    else if (!isText && parsed(text) === undefined)
      wrong ??= `the column ${JSON.stringify(name)} is not JSON`;
    else if (field === "metadata") {
      const inside = /^\s*\{([\s\S]*)\}\s*$/.exec(text)?.[1];
      if (inside === undefined) wrong ??= `the column ${JSON.stringify(name)} is not a JSON object`;
      else if (inside.trim() !== "") metadata.push(inside);
    } else {
      members.push(`${JSON.stringify(field)}:${text}`);
      if (field === "id") id = JSON.parse(text) as string;
    }
  }
  if (metadata.length > 0) members.push(`"metadata":{${metadata.join(",")}}`);
  const item = { ...place, json: `{${members.join(",")}}`, id, ...(names !== undefined && { names }) };
  return wrong === undefined ? item : { ...item, problem: { code: "invalid_vector", reason: wrong } };
}
