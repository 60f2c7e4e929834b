// How is a value written as JSON without losing a number?
//
// JSON.stringify writes NaN and the infinities as null, and null means "absent" in a filter and "remove the key" in a patch: a filter would
// match more records, and a patch delete what it should set. So such a number is an error, before anything is sent, and so is what
// JSON.stringify throws for: a bigint, and an object that contains itself.

import { QuiverError } from "@quiverdb/protocol/errors";

/**
 * JSON text of the body of a request, or of a part of it.
 * @param path of the part, for messages
 * @throws QuiverError invalid_request with the place of what JSON cannot represent, such as `filter.n.lt`
 */
export function jsonText(value: unknown, path = ""): string {
  let text: string;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    refuseUnwritable(value, path, []);
    // It has a toJSON that throws.
    throw new QuiverError(
      "invalid_request",
      `${path === "" ? "The request" : path} cannot be written as JSON: ${(cause as Error).message}`,
      path === "" ? {} : { path },
      { cause },
    );
  }
  // Most bodies have no null at all, so their values need not be walked.
  if (text.includes("null")) refuseNotFinite(value, path);
  return text;
}

/**
 * Refuses what JSON cannot represent, as `jsonText` does, without making the text; vectors are not looked at.
 * @throws QuiverError invalid_request
 */
export function checkWritable(value: unknown): void {
  refuseUnwritable(value, "", []);
  refuseNotFinite(value, "");
}

/** @param around the objects that the value is in */
function refuseUnwritable(value: unknown, path: string, around: readonly object[]): void {
  const refuse = (what: string) => {
    throw new QuiverError("invalid_request", `${path} ${what}`, { path });
  };
  if (typeof value === "bigint")
    refuse(
      `is the bigint ${value}, which JSON cannot represent; give a number, or a string with its digits.`,
    );
  if (typeof value !== "object" || value === null || "toJSON" in value || ArrayBuffer.isView(value)) return;
  if (around.includes(value)) refuse("contains itself, which JSON cannot represent.");
  const inside = [...around, value];
  for (const [key, item] of Object.entries(value)) {
    const place = Array.isArray(value) ? `${path}[${key}]` : path === "" ? key : `${path}.${key}`;
    refuseUnwritable(item, place, inside);
  }
}

function refuseNotFinite(value: unknown, path: string): void {
  if (typeof value === "number" && !Number.isFinite(value))
    throw new QuiverError(
      "invalid_request",
      `${path} is ${value}, which JSON cannot represent; expected a finite number.`,
      {
        path,
      },
    );
  // Vectors are looked at where they are used.
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return;
  const { toJSON } = value as { toJSON?: () => unknown };
  if (typeof toJSON === "function") refuseNotFinite(toJSON.call(value), path);
  else if (Array.isArray(value)) {
    for (const [i, item] of value.entries()) refuseNotFinite(item, `${path}[${i}]`);
  } else
    for (const [key, item] of Object.entries(value))
      refuseNotFinite(item, path === "" ? key : `${path}.${key}`);
}

/**
 * Refuses a filter with a value that JSON leaves out, such as the `undefined` of a missing tenant: the filter would match more records, of
 * which a deletion would delete all.
 * @param path of the filter, for messages
 * @throws QuiverError invalid_filter with the place of the value
 */
export function checkFilter(filter: unknown, path: string): void {
  refuseLeftOut(filter, path, 0);
}

/** The same for the filters of a request, and of the queries of a batch. */
export function checkFilters(body: unknown): void {
  // An array has a method of this name.
  if (typeof body !== "object" || body === null || Array.isArray(body)) return;
  const { filter, queries } = body as { filter?: unknown; queries?: unknown };
  if (filter != null) checkFilter(filter, "filter");
  if (!Array.isArray(queries)) return;
  for (const [i, query] of queries.entries())
    if (!Array.isArray(query) && query?.filter != null) checkFilter(query.filter, `queries[${i}].filter`);
}

/** More levels than any filter may have; a filter that contains itself has them, too. */
const levelsMax = 100;

function refuseLeftOut(value: unknown, path: string, level: number): void {
  const refuse = (what: string) => {
    const message = `${path} is ${what}, which JSON cannot represent: the condition would be left out. Give a value, or leave the condition out yourself.`;
    throw new QuiverError("invalid_filter", message, { path });
  };
  if (value === undefined || ["function", "symbol", "bigint"].includes(typeof value))
    refuse(value === undefined ? "undefined" : `a ${typeof value}`);
  if (typeof value !== "object" || value === null) return;
  if (level > levelsMax) refuse("nested too deeply");
  const { toJSON } = value as { toJSON?: () => unknown };
  if (typeof toJSON === "function") refuseLeftOut(toJSON.call(value), path, level + 1);
  else if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) refuseLeftOut(value[i], `${path}[${i}]`, level + 1);
  } else {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== null && prototype !== Object.prototype)
      refuse(`a ${value.constructor?.name ?? "class"}`);
    for (const [key, item] of Object.entries(value)) refuseLeftOut(item, `${path}.${key}`, level + 1);
  }
}
