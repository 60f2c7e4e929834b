// How is the query string of a request parsed?
//
// `name=value` pairs joined by `&`, percent-encoded, `+` for a space. An unknown name is rejected, like an unknown field of a body. A name
// may occur only once, because it would be unclear which of two values was meant.

import { QuiverError } from "@quiverdb/protocol/errors";
import { unknownNameError } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import { type QueryField, type Route, valueType } from "@quiverdb/protocol/routes";
import type { Static, TObject } from "typebox";
import { fieldError } from "./validation.ts";

/** All pairs in order, or the reason why the string cannot be parsed. */
export type RawQuery = {
  readonly pairs: readonly (readonly [string, string])[];
  readonly malformed: boolean;
};

export type Query = Readonly<Record<string, string | undefined>>;

const decode = (text: string) => decodeURIComponent(text.replaceAll("+", " "));

/** Never throws: Fastify calls it before our code can handle an error. */
export function parseQuery(text: string): RawQuery {
  try {
    const pairs = text
      .split("&")
      .filter((part) => part !== "")
      .map((part) => {
        const equals = part.indexOf("=");
        return equals < 0
          ? ([decode(part), ""] as const)
          : ([decode(part.slice(0, equals)), decode(part.slice(equals + 1))] as const);
      });
    return { pairs, malformed: false };
  } catch {
    return { pairs: [], malformed: true };
  }
}

const noQuery: Query = Object.freeze(Object.create(null));

/** @throws invalid_request for a malformed string, a repeated parameter, a missing required one; unknown_field */
export function queryOf(raw: RawQuery, route: Route): Query {
  if (raw.malformed) {
    throw fieldError(
      "query",
      "percent-encoded UTF-8",
      "a broken percent-encoding",
      "The query string has a percent sign without two hex digits behind it, or bytes that are not UTF-8.",
    );
  }
  if (route.query === undefined && raw.pairs.length === 0) return noQuery;
  const known = Object.keys(route.query ?? {}).map((declared) => declared.replace(/^!/, ""));
  const unknown = raw.pairs.find(([name]) => !known.includes(name))?.[0];
  if (unknown !== undefined) throw unknownNameError(unknown, known, "query parameter");
  const query: Record<string, string | undefined> = Object.create(null);
  for (const declared of Object.keys(route.query ?? {})) {
    const required = declared.startsWith("!");
    const name = required ? declared.slice(1) : declared;
    const values = raw.pairs.filter(([key]) => key === name).map(([, value]) => value);
    if (values.length > 1) {
      throw fieldError(
        name,
        "one value",
        `${values.length} values`,
        `The query parameter ${name} occurs ${values.length} times; give it once.`,
      );
    }
    if (required && values.length === 0) {
      throw fieldError(
        name,
        "a string",
        "nothing",
        `The query parameter ${name} is missing; add ?${name}=...`,
      );
    }
    query[name] = values[0];
  }
  return query;
}

/** An integer query parameter. @throws invalid_request */
export function integerParameter(
  query: Query,
  name: string,
  least: number,
  most: number,
): number | undefined {
  const text = query[name];
  if (text === undefined) return undefined;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  const expected = `an integer from ${least} to ${most}`;
  throw fieldError(name, expected, shortly(text), `${name} must be ${expected}, not ${shortly(text)}.`);
}

/** A query parameter with a fixed set of values. @throws invalid_request */
export function wordParameter<const Words extends readonly string[]>(
  query: Query,
  name: string,
  words: Words,
): Words[number] | undefined {
  const text = query[name];
  if (text === undefined || words.includes(text)) return text;
  const expected = words.map((word) => JSON.stringify(word)).join(" or ");
  throw fieldError(
    name,
    expected,
    shortly(text),
    `${name} must be ${expected} or left out, not ${shortly(text)}.`,
  );
}

/** A filter as a query parameter: a JSON text. @throws invalid_filter */
export function filterParameter(query: Query, name: string): unknown {
  const text = query[name];
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    const message = `The query parameter ${name} is no JSON; expected a filter such as {"color": "red"}, percent-encoded.`;
    throw new QuiverError("invalid_filter", message, { path: name });
  }
}

/**
 * The parameters as fields of a shape: each as its type, the range of which the engine checks as in the body of a request.
 * @throws invalid_request, invalid_filter
 */
export function fieldParameters<T extends TObject>(query: Query, shape: T): Static<T> {
  const fields = Object.entries(shape.properties) as [string, unknown][];
  const given = fields.filter(([name]) => query[name] !== undefined);
  return Object.fromEntries(
    given.map(([name, field]) => [name, fieldParameter(query, name, field as QueryField)]),
  ) as Static<T>;
}

function fieldParameter(query: Query, name: string, { type, items }: QueryField): unknown {
  const text = query[name] ?? "";
  switch (valueType(type)) {
    case "string":
      return text;
    case "boolean":
      return wordParameter(query, name, ["true", "false"]) === "true";
    case "array":
      return wordsOf(text, name, items?.enum ?? []);
    case "object":
      return filterParameter(query, name);
    default: {
      // What JSON calls a number.
      const value = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text) ? Number(text) : Number.NaN;
      if (Number.isFinite(value)) return value;
      throw fieldError(name, "a number", shortly(text), `${name} must be a number, not ${shortly(text)}.`);
    }
  }
}

/** Words of a fixed set, with commas between. @throws invalid_request */
function wordsOf(text: string, name: string, words: readonly string[]): string[] {
  const listed = text.split(",");
  const wrong = listed.find((word) => !words.includes(word));
  if (wrong === undefined) return listed;
  const expected = `any of ${words.join(", ")}, with commas between`;
  throw fieldError(name, expected, shortly(wrong), `${name} must be ${expected}, not ${shortly(wrong)}.`);
}

/** An id as a query parameter. @throws invalid_request */
export function idParameter(query: Query, name: string): string {
  const text = query[name] ?? "";
  const bytes = Buffer.byteLength(text);
  if (bytes >= 1 && bytes <= limits.idBytesMax) return text;
  const expected = `1 to ${limits.idBytesMax} bytes of UTF-8`;
  throw fieldError(name, expected, `${bytes} bytes`, `${name} must have ${expected}, not ${bytes}.`);
}

const shortly = (text: string) => (text.length <= 24 ? JSON.stringify(text) : `${text.length} characters`);
