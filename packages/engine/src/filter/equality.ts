// `eq`, `ne`, `in`, `nin`: is a value one of these?
//
// Numbers equal numbers as 64-bit floats, strings equal strings code point by code point, booleans equal booleans. `ne` and `nin` negate
// `eq` and `in`: they hold where the field is absent.

import { limits } from "@quiverdb/protocol/limits";
import type { Steps } from "../base/steps.ts";
import { timeOf } from "../metadata/field.ts";
import { bytesOfText, type FoundValue } from "../metadata/scan.ts";
import {
  type Condition,
  type Coverage,
  type FieldLookup,
  invalidFilter,
  isScalar,
  type Operator,
  type Scalar,
  type ScalarType,
  wrongOperand,
} from "./condition.ts";

const scalar = "a string, a number or a boolean";

/** Up to this many strings are compared one by one, as bytes; more are looked up. */
const comparedMax = 4;

/** The value is one of some. */
export class OneOf implements Condition {
  readonly values: ReadonlySet<Scalar>;
  /** Where each value stands in the request. */
  readonly #paths: (value: Scalar) => string;
  /** The strings, if they are few. */
  readonly #texts: readonly { readonly text: string; readonly bytes: Uint8Array }[] | null;

  constructor(values: ReadonlySet<Scalar>, paths: (value: Scalar) => string) {
    this.values = values;
    this.#paths = paths;
    const texts = [...values].filter((value) => typeof value === "string");
    this.#texts =
      texts.length > comparedMax ? null : texts.map((text) => ({ text, bytes: bytesOfText(text) }));
  }

  get types(): ScalarType[] {
    return [...new Set([...this.values].map((value) => typeof value as ScalarType))];
  }

  get key(): string {
    return `in ${JSON.stringify([...this.values].map(keyOf).sort())}`;
  }

  holds(value: FoundValue): boolean {
    switch (value.type) {
      case "string":
        if (this.#texts === null) return this.values.has(value.text);
        for (const { text, bytes } of this.#texts) if (value.isText(text, bytes)) return true;
        return false;
      case "number":
        return this.values.has(value.number);
      case "boolean":
        return this.values.has(value.boolean);
      default:
        return false;
    }
  }

  *lookUp(index: FieldLookup): Steps<Coverage> {
    if (index.type === "datetime") return "none";
    if (index.type === "keyword") yield* index.equalTexts(this.#valuesOf("string"));
    else if (index.type === "number") yield* index.equalNumbers(new Set(this.#valuesOf("number")));
    else for (const value of this.#valuesOf("boolean")) index.equalBoolean(value);
    const ofType = index.type === "keyword" ? "string" : index.type;
    const isCovered = (value: Scalar) =>
      typeof value === ofType && (typeof value !== "string" || value.length <= index.textLengthMax);
    return [...this.values].every(isCovered) ? "all" : "typed";
  }

  #valuesOf<T extends "string" | "number" | "boolean">(type: T): TypeNamed<T>[] {
    return [...this.values].filter((value) => typeof value === type) as TypeNamed<T>[];
  }

  asTime(): Condition {
    const moments = new Set<number>();
    const others = new Set<Scalar>();
    for (const value of this.values) {
      if (typeof value !== "string") others.add(value);
      else moments.add(momentOf(value, this.#paths(value)));
    }
    return new OneOfTimes(moments, new OneOf(others, this.#paths));
  }
}

type TypeNamed<T> = T extends "string" ? string : T extends "number" ? number : boolean;

/** A text names one of some moments, or another value is one of some. */
class OneOfTimes implements Condition {
  readonly moments: ReadonlySet<number>;
  readonly others: OneOf;

  constructor(moments: ReadonlySet<number>, others: OneOf) {
    this.moments = moments;
    this.others = others;
  }

  get types(): ScalarType[] {
    return [...(this.moments.size > 0 ? (["string"] as const) : []), ...this.others.types];
  }

  get key(): string {
    return `in times ${JSON.stringify([...this.moments].sort())}, ${this.others.key}`;
  }

  holds(value: FoundValue): boolean {
    return value.type === "string" ? this.moments.has(timeOf(value.text)) : this.others.holds(value);
  }

  *lookUp(index: FieldLookup): Steps<Coverage> {
    if (index.type !== "datetime") return "none";
    yield* index.equalNumbers(this.moments);
    return this.others.values.size === 0 ? "all" : "typed";
  }

  asTime(): this {
    return this;
  }
}

/** Infinity is no JSON. */
const keyOf = (value: Scalar): string => `${typeof value} ${value}`;

/** @throws invalid_filter if the text is no moment */
export function momentOf(text: string, path: string): number {
  const moment = timeOf(text);
  if (!Number.isNaN(moment)) return moment;
  const expected = "a date or a date and time of ISO 8601, such as 2024-05-01T10:30:00Z";
  throw invalidFilter(
    path,
    `is a string that is no time, and the field is declared as datetime; expected ${expected}.`,
    {
      expected,
    },
  );
}

function readOne(operand: unknown, path: string): OneOf {
  if (!isScalar(operand))
    throw wrongOperand(path, operand, `${scalar}${Array.isArray(operand) ? "; for a list use `in`" : ""}`);
  return new OneOf(new Set([operand]), () => path);
}

function readMany(operand: unknown, path: string): OneOf {
  const expected = `an array of strings, numbers and booleans`;
  if (!Array.isArray(operand)) throw wrongOperand(path, operand, expected);
  if (operand.length > limits.filterValuesMax)
    throw invalidFilter(
      path,
      `has ${operand.length} values, at most ${limits.filterValuesMax} are allowed.`,
      {
        maximum: limits.filterValuesMax,
      },
    );
  for (let i = 0; i < operand.length; i++)
    if (!isScalar(operand[i])) throw wrongOperand(`${path}[${i}]`, operand[i], scalar);
  return new OneOf(new Set(operand), (value) => `${path}[${operand.indexOf(value)}]`);
}

const operator = (
  name: string,
  expects: string,
  read: (operand: unknown, path: string) => OneOf,
  isNegated: boolean,
): Operator => ({ name, expects, read: (operand, path) => ({ condition: read(operand, path), isNegated }) });

export const equality: readonly Operator[] = [
  operator("eq", scalar, readOne, false),
  operator("ne", scalar, readOne, true),
  operator("in", "an array", readMany, false),
  operator("nin", "an array", readMany, true),
];
