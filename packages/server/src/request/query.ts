// How is the query string of a request parsed?
//
// `name=value` pairs joined by `&`, percent-encoded, `+` for a space. An unknown name is rejected, like an unknown field of a body. A name
// may occur only once, because it would be unclear which of two values was meant.

import type { Parameters } from "@quiverdb/engine/operations/parameters";
import { fieldError } from "@quiverdb/protocol/errors";
import { unknownNameError } from "@quiverdb/protocol/fields";

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
export function queryOf(raw: RawQuery, parameters: Parameters | undefined): Query {
  if (raw.malformed) {
    throw fieldError(
      "query",
      "percent-encoded UTF-8",
      "a broken percent-encoding",
      "The query string has a percent sign without two hex digits behind it, or bytes that are not UTF-8.",
    );
  }
  if (parameters === undefined && raw.pairs.length === 0) return noQuery;
  const declared = Object.entries(parameters ?? {});
  const known = declared.map(([name]) => name);
  const unknown = raw.pairs.find(([name]) => !known.includes(name))?.[0];
  if (unknown !== undefined) throw unknownNameError(unknown, known, "query parameter");
  const query: Record<string, string | undefined> = Object.create(null);
  for (const [name, { isRequired }] of declared) {
    const values = raw.pairs.filter(([key]) => key === name).map(([, value]) => value);
    if (values.length > 1) {
      throw fieldError(
        name,
        "one value",
        `${values.length} values`,
        `The query parameter ${name} occurs ${values.length} times; give it once.`,
      );
    }
    if (isRequired === true && values.length === 0) {
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
