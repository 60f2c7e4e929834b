// Reference: does a record match a filter, read directly from the JSON of both?
//
// Nothing here shares code with the engine: paths are split by a regular expression, values are collected from parsed objects, strings are
// compared as arrays of code points, and the three forms of filters are evaluated as they are written.

export type NaiveRecord = {
  readonly id: string;
  readonly document_id?: string | null;
  readonly metadata?: Readonly<Record<string, unknown>> | null;
};

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function keysOf(field: string): string[] {
  const keys = [""];
  for (const [, escaped, plain] of field.matchAll(/\\([\s\S])|([\s\S])/gu)) {
    if (escaped === undefined && plain === ".") keys.push("");
    else keys[keys.length - 1] += escaped ?? plain;
  }
  return keys;
}

function valuesAt(value: unknown, keys: readonly string[]): unknown[] {
  if (Array.isArray(value)) return value.flatMap((item) => valuesAt(item, keys));
  if (value === null || value === undefined) return [];
  if (keys.length === 0) return [value];
  return isObject(value) && Object.hasOwn(value, keys[0]) ? valuesAt(value[keys[0]], keys.slice(1)) : [];
}

function valuesOf(record: NaiveRecord, field: string): unknown[] {
  if (field === "id") return [record.id];
  if (field === "document_id") return record.document_id == null ? [] : [record.document_id];
  return valuesAt(record.metadata, keysOf(field));
}

/** By code points. */
function order(a: unknown, b: unknown): number {
  if (typeof a === "number" && typeof b === "number")
    return a < b ? -1 : a > b ? 1 : a === b ? 0 : Number.NaN;
  if (typeof a !== "string" || typeof b !== "string") return Number.NaN;
  const [x, y] = [a, b].map((text) => Array.from(text, (point) => point.codePointAt(0) as number));
  for (let i = 0; i < Math.min(x.length, y.length); i++) if (x[i] !== y[i]) return x[i] - y[i];
  return x.length - y.length;
}

const points = (text: unknown) => (typeof text === "string" ? Array.from(text) : []);
function hasPart(text: unknown, part: unknown, isPrefix: boolean): boolean {
  if (typeof text !== "string" || typeof part !== "string") return false;
  const [all, wanted] = [points(text), points(part)];
  const starts = isPrefix ? [0] : all.concat("").map((_, i) => i);
  return starts.some(
    (from) => from + wanted.length <= all.length && wanted.every((point, i) => all[from + i] === point),
  );
}

const time = (value: unknown) => (typeof value === "string" ? Date.parse(value) : value);

type Test = (value: unknown, operand: unknown) => boolean;
const tests: Readonly<Record<string, Test>> = {
  eq: (value, operand) => typeof value === typeof operand && value === operand,
  in: (value, operand) => (operand as unknown[]).includes(value === 0 ? 0 : value),
  gt: (value, operand) => order(value, operand) > 0,
  gte: (value, operand) => order(value, operand) >= 0,
  lt: (value, operand) => order(value, operand) < 0,
  lte: (value, operand) => order(value, operand) <= 0,
  contains: (value, operand) => hasPart(value, operand, false),
  prefix: (value, operand) => hasPart(value, operand, true),
  exists: () => true,
};

function leaf(record: NaiveRecord, field: string, name: string, operand: unknown, isTime: boolean): boolean {
  const values = valuesOf(record, field);
  if (name === "ne") return !leaf(record, field, "eq", operand, isTime);
  if (name === "nin") return !leaf(record, field, "in", operand, isTime);
  if (name === "exists" && operand === false) return values.length === 0;
  const isText = name === "contains" || name === "prefix";
  if (!isTime || isText) return values.some((value) => tests[name](value, operand));
  const wanted = Array.isArray(operand) ? operand.map(time) : time(operand);
  // A moment is no number of the user's.
  const sameType = (value: unknown) => typeof value === "string" || name === "exists";
  return values.some((value) => sameType(value) && tests[name](time(value), wanted));
}

/** @param times fields that are declared as `datetime`; all operands for them are strings */
export function naiveMatches(record: NaiveRecord, filter: unknown, times: readonly string[] = []): boolean {
  const matches = (part: unknown) => naiveMatches(record, part, times);
  if (!isObject(filter)) throw new Error("no filter");
  const { and = filter.And, or = filter.Or, not, Is } = filter;
  if (and !== undefined) return (and as unknown[]).every(matches);
  if (or !== undefined) return (or as unknown[]).some(matches);
  if (not !== undefined) return !matches(not);
  if (isObject(Is)) {
    const equal = leaf(
      record,
      Is.field_name as string,
      "eq",
      Is.field_value,
      times.includes(Is.field_name as string),
    );
    return equal === (Is.operator === "Equal");
  }
  const leaves =
    typeof filter.field === "string"
      ? Object.entries(filter).flatMap(([name, operand]) =>
          name === "field" ? [] : [[filter.field, name, operand]],
        )
      : Object.entries(filter).flatMap(([field, held]) =>
          isObject(held)
            ? Object.entries(held).map(([name, operand]) => [field, name, operand])
            : [[field, "eq", held]],
        );
  return leaves.every(([field, name, operand]) =>
    leaf(record, field as string, name as string, operand, times.includes(field as string)),
  );
}
