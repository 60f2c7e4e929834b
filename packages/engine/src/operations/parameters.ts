// How are the parameters of a query string declared and read?
//
// All are text on the wire, and in a call of the same process. A declared parameter has its description and reads its value from the text.

import { fieldError, QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { Static, TObject } from "typebox";
import { utf8 } from "../base/bytes.ts";

export type Parameter<T> = {
  readonly description: string;
  readonly isRequired?: boolean;
  /** @throws QuiverError which names the parameter */
  readonly read: (text: string, name: string) => T;
};

export type Parameters = Readonly<Record<string, Parameter<unknown>>>;

export type ParametersOf<P extends Parameters> = {
  readonly [Name in keyof P]: P[Name] extends Parameter<infer T>
    ? P[Name] extends { readonly isRequired: true }
      ? T
      : T | undefined
    : never;
};

const nothing = Object.freeze({});

/** The values of what is given. @param given texts of declared parameters; a required one that is missing is empty */
export function readParameters(
  parameters: Parameters | undefined,
  given: Readonly<Record<string, string | undefined>>,
): unknown {
  if (parameters === undefined) return nothing;
  const values: Record<string, unknown> = {};
  for (const [name, { isRequired, read }] of Object.entries(parameters)) {
    const text = given[name] ?? (isRequired === true ? "" : undefined);
    if (text !== undefined) values[name] = read(text, name);
  }
  return values;
}

/** @param description with its range and default */
export const integer = (least: number, most: number, description: string): Parameter<number> => ({
  description,
  read(text, name) {
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= least && value <= most) return value;
    throw wrongParameter(name, `an integer from ${least} to ${most}`, shortly(text));
  },
});

/** One of a set of words. */
export const word = <const Words extends readonly string[]>(
  words: Words,
  description: string,
): Parameter<Words[number]> => ({ description, read: (text, name) => wordOf(text, name, words) });

/** A filter as JSON. */
export const filterJson = (description: string): Parameter<unknown> => ({ description, read: filterOf });

/** The id of a record or of a document, without which nothing can be asked. */
export const requiredId = (description: string) =>
  ({
    description,
    isRequired: true,
    read(text, name) {
      const bytes = utf8(text).length;
      if (bytes >= 1 && bytes <= limits.idBytesMax) return text;
      const expected = `1 to ${limits.idBytesMax} bytes of UTF-8`;
      throw fieldError(name, expected, `${bytes} bytes`, `${name} must have ${expected}, not ${bytes}.`);
    },
  }) as const satisfies Parameter<string>;

/** The part of a field's schema that is used here. */
type Field = {
  /** Absent: any JSON. */
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly default?: unknown;
  /** Of an array. */
  readonly items?: { readonly enum: readonly string[] };
};

/** How a field of a body is written in a query string, by its type. */
const textForms: Readonly<Record<string, string>> = {
  integer: "An integer.",
  number: "A number.",
  boolean: "`true` or `false`.",
  array: "Words with commas between.",
  object: "JSON, percent-encoded.",
};

/** The type of a field's values: that beside null. */
const valueType = ({ type }: Field): string =>
  [type ?? "object"].flat().find((each) => each !== "null") as string;

/** The fields of a shape as parameters: each as its type; the engine checks its range, as in the body of a request. */
export function fieldsOf<T extends TObject>(
  shape: T,
): { readonly [Name in keyof Static<T>]-?: Parameter<Static<T>[Name]> } {
  const fields = Object.entries(shape.properties) as [string, Field][];
  const parameters = fields.map(([name, field]) => {
    const { description, default: usual } = field;
    const parts = [description, textForms[valueType(field)], usual !== undefined && `Default: ${usual}.`];
    const read = (text: string) => typedValue(text, name, field);
    return [name, { description: parts.filter(Boolean).join(" "), read }];
  });
  return Object.fromEntries(parameters);
}

function typedValue(text: string, name: string, field: Field): unknown {
  switch (valueType(field)) {
    case "string":
      return text;
    case "boolean":
      return wordOf(text, name, ["true", "false"]) === "true";
    case "array":
      return wordsOf(text, name, field.items?.enum ?? []);
    case "object":
      return filterOf(text, name);
    default: {
      // What JSON calls a number.
      const value = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text) ? Number(text) : Number.NaN;
      if (Number.isFinite(value)) return value;
      throw wrongParameter(name, "a number", shortly(text));
    }
  }
}

function wordOf(text: string, name: string, words: readonly string[]): string {
  if (words.includes(text)) return text;
  const expected = words.map((each) => JSON.stringify(each)).join(" or ");
  const message = `${name} must be ${expected} or left out, not ${shortly(text)}.`;
  throw fieldError(name, expected, shortly(text), message);
}

/** Words of a fixed set, with commas between. */
function wordsOf(text: string, name: string, words: readonly string[]): string[] {
  const listed = text.split(",");
  const wrong = listed.find((each) => !words.includes(each));
  if (wrong === undefined) return listed;
  throw wrongParameter(name, `any of ${words.join(", ")}, with commas between`, shortly(wrong));
}

function filterOf(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    const message = `The query parameter ${name} is no JSON; expected a filter such as {"color": "red"}, percent-encoded.`;
    throw new QuiverError("invalid_filter", message, { path: name });
  }
}

const wrongParameter = (name: string, expected: string, received: string) =>
  fieldError(name, expected, received, `${name} must be ${expected}, not ${received}.`);

const shortly = (text: string) => (text.length <= 24 ? JSON.stringify(text) : `${text.length} characters`);
