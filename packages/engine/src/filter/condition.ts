// What does a filter ask of the values of one field?
//
// A condition holds for a record if it holds for any value of the field. "Not" is no condition but a part of the filter's tree (filter.ts),
// because it negates the whole: the field has no value for which the condition holds.

import { QuiverError } from "@quiverdb/protocol/errors";
import { kindOf } from "@quiverdb/protocol/kind-of";
import type { Steps } from "../base/steps.ts";
import type { FoundValue } from "../metadata/scan.ts";

/**
 * What of the records that a condition holds for an index knows: all; all but those with values that are not of its type; or none, because
 * it has the values in another form.
 */
export type Coverage = "all" | "typed" | "none";

/** The types of an index. */
export type FieldType = "keyword" | "number" | "boolean" | "datetime";

/** The types of values that are compared; others are never equal. */
export type ScalarType = "string" | "number" | "boolean";

/** The values that an index of a type has. */
export const scalarTypeOf: Readonly<Record<FieldType, ScalarType>> = {
  keyword: "string",
  number: "number",
  boolean: "boolean",
  datetime: "string",
};

/** Greater than a bound, or smaller; with the bound itself, or without. */
export type Side = { readonly isGreater: boolean; readonly isInclusive: boolean };

/** An index of a field that is asked for records; what it finds is added to one set. */
export interface FieldLookup {
  readonly type: FieldType;
  /** Longer strings are not in an index. */
  readonly textLengthMax: number;
  /** Records with one of these strings; of a `keyword` index. */
  equalTexts(texts: readonly string[]): Steps<void>;
  /** Records with a string that passes a test, which is asked about every string; of a `keyword` index. */
  textsThat(passes: (text: string) => boolean): Steps<void>;
  /** Records with one of these numbers, or moments. */
  equalNumbers(numbers: ReadonlySet<number>): Steps<void>;
  /** Records with a number, or a moment, beyond a bound. */
  beyond(side: Side, bound: number): void;
  equalBoolean(value: boolean): void;
  /** Records with any value. */
  present(): void;
}

export interface Condition {
  /** Looks up the records that it holds for, as far as the index knows them, and perhaps some that were removed. */
  lookUp(index: FieldLookup): Coverage | Steps<Coverage>;
  /** Whether it holds for a value. */
  holds(value: FoundValue): boolean;
  /**
   * The condition for a field that is declared as `datetime`: texts are moments. @throws invalid_filter if an operand is a text that is none
   */
  asTime(): Condition;
  /** The types of the values that it can hold for; null: any. */
  readonly types: readonly ScalarType[] | null;
  /** Two conditions with equal keys hold for the same values. */
  readonly key: string;
}

/** What a leaf says: a condition, or that it does not hold. */
export type Statement = { readonly condition: Condition; readonly isNegated: boolean };

/** One operator of a leaf, such as `gte`. */
export interface Operator {
  readonly name: string;
  /** In words, for error messages. */
  readonly expects: string;
  /** @param path of the operand, in messages. @throws invalid_filter */
  read(operand: unknown, path: string): Statement;
}

/** Strings, numbers and booleans. */
export type Scalar = string | number | boolean;

export function isScalar(value: unknown): value is Scalar {
  const type = typeof value;
  return type === "string" || type === "boolean" || (type === "number" && !Number.isNaN(value));
}

/** A filter that cannot be understood. @param path of the fault, such as `filter.and[1].gte` */
export function invalidFilter(
  path: string,
  problem: string,
  details: Record<string, unknown> = {},
): QuiverError {
  return new QuiverError("invalid_filter", `${path} ${problem}`, { path, ...details });
}

/** The error for an operand of a wrong type. */
export function wrongOperand(path: string, value: unknown, expected: string): QuiverError {
  return invalidFilter(path, `is ${kindOf(value)}; expected ${expected}.`, {
    expected,
    received: kindOf(value),
  });
}
