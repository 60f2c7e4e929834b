// Which part of a record does the name of a field mean?
//
//   color      the key `color` of the metadata
//   a.b        the key `b` of the object at the key `a`
//   a\.b       the key `a.b`: a backslash makes the next character part of a key
//   id         the id of the record, and `document_id` that of its document; `\id` is the metadata key `id`
//
// An array in place of a value stands for each of its elements, at any depth: with `{"a": [{"b": 1}, {"b": [2, 3]}]}` the field a.b has
// the values 1, 2 and 3.

/** The fields that are not metadata. */
export const recordFields = ["id", "document_id"] as const;
export type RecordField = (typeof recordFields)[number];

export type Field = {
  /** Equal for equal fields: with no more backslashes than necessary. */
  readonly name: string;
  /** Present if the field is not metadata. */
  readonly record?: RecordField;
  /** The keys from the metadata to the value; empty if the field is not metadata. */
  readonly keys: readonly string[];
};

/** The field of a name; null if the name ends with a backslash that stands alone. */
export function fieldNamed(name: string): Field | null {
  const record = recordFields.find((known) => known === name);
  if (record !== undefined) return { name, record, keys: [] };
  const keys: string[] = [];
  let key = "";
  for (let i = 0; i < name.length; i++) {
    if (name[i] === ".") {
      keys.push(key);
      key = "";
    } else if (name[i] !== "\\") key += name[i];
    else if (++i === name.length) return null;
    else key += name[i];
  }
  keys.push(key);
  return { name: fieldName(keys), keys };
}

/** The name of the metadata field at the end of these keys: with no more backslashes than necessary. */
export function fieldName(keys: readonly string[]): string {
  const name = keys.map((key) => key.replaceAll(/[\\.]/g, "\\$&")).join(".");
  return recordFields.some((known) => known === name) ? `\\${name}` : name;
}
