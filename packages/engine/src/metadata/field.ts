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
const recordFields = ["id", "document_id"] as const;
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

// ---- Which moment does a text name?
//
//   2024-05-01                     midnight, UTC
//   2024-05-01T10:30               UTC, where no offset is given; seconds and their fraction may be left out
//   2024-05-01T10:30:00.25+02:00   ISO 8601 and RFC 3339; a space may stand for the T
//
// A moment is a number of milliseconds since 1970, as a 64-bit float: today's are exact to a quarter of a microsecond.

const form =
  /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,12}))?)?(?:([Zz])|([+-])(\d\d):?(\d\d))?)?$/;

/** Milliseconds since 1970; NaN if the text names no moment. */
export function timeOf(text: string): number {
  const parts = form.exec(text);
  if (parts === null) return Number.NaN;
  const [year, month, day, hour, minute, second] = parts.slice(1, 7).map((part) => Number(part ?? 0));
  const [fraction, sign, offsetHours, offsetMinutes] = [
    parts[7],
    parts[9],
    Number(parts[10] ?? 0),
    Number(parts[11] ?? 0),
  ];
  // A leap second is the second after it.
  if (month < 1 || month > 12 || hour > 23 || minute > 59 || second > 60) return Number.NaN;
  if (offsetHours > 23 || offsetMinutes > 59) return Number.NaN;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (day < 1 || date.getUTCDate() !== day) return Number.NaN;
  const offset = (sign === "-" ? -1 : 1) * (offsetHours * 60 + offsetMinutes);
  const milliseconds = fraction === undefined ? 0 : Number(`0.${fraction}`) * 1_000;
  return date.getTime() + ((hour * 60 + minute - offset) * 60 + second) * 1_000 + milliseconds;
}
