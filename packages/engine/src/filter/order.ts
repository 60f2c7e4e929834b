// `gt`, `gte`, `lt`, `lte`: is a value beyond a bound?
//
// Numbers compare with numbers, as 64-bit floats, and strings with strings, by code points; of a field that is declared as `datetime`,
// strings compare as moments. A value of another type than the bound is beyond none.

import { compareText } from "../base/bytes.ts";
import type { Steps } from "../base/steps.ts";
import { timeOf } from "../metadata/field.ts";
import type { FoundValue } from "../metadata/scan.ts";
import {
  type Condition,
  type Coverage,
  type FieldLookup,
  type Operator,
  type Side,
  wrongOperand,
} from "./condition.ts";
import { momentOf } from "./equality.ts";

/** Whether something is on the side. @param order of it and the bound, negative: it comes first */
const isOn = ({ isGreater, isInclusive }: Side, order: number): boolean =>
  order === 0 ? isInclusive : order > 0 === isGreater;

const keyOf = ({ isGreater, isInclusive }: Side, bound: string): string =>
  `${isGreater ? "g" : "l"}t${isInclusive ? "e" : ""} ${bound}`;

/** A number beyond a bound. */
class NumberBound implements Condition {
  readonly types = ["number"] as const;
  readonly side: Side;
  readonly bound: number;

  constructor(side: Side, bound: number) {
    this.side = side;
    this.bound = bound;
  }

  get key(): string {
    return keyOf(this.side, String(this.bound));
  }

  holds(value: FoundValue): boolean {
    return value.type === "number" && isOn(this.side, compareNumbers(value.number, this.bound));
  }

  lookUp(index: FieldLookup): Coverage {
    if (index.type === "datetime") return "none";
    if (index.type === "number") index.beyond(this.side, this.bound);
    return index.type === "number" ? "all" : "typed";
  }

  asTime(): this {
    return this;
  }
}

/** A string beyond a bound. */
class TextBound implements Condition {
  readonly types = ["string"] as const;
  readonly side: Side;
  readonly bound: string;
  readonly #path: string;

  constructor(side: Side, bound: string, path: string) {
    this.side = side;
    this.bound = bound;
    this.#path = path;
  }

  get key(): string {
    return keyOf(this.side, JSON.stringify(this.bound));
  }

  holds(value: FoundValue): boolean {
    return value.type === "string" && isOn(this.side, compareText(value.text, this.bound));
  }

  *lookUp(index: FieldLookup): Steps<Coverage> {
    if (index.type === "datetime") return "none";
    if (index.type === "keyword")
      yield* index.textsThat((text) => isOn(this.side, compareText(text, this.bound)));
    // Strings that are too long for an index are in none.
    return "typed";
  }

  asTime(): Condition {
    return new TimeBound(this.side, momentOf(this.bound, this.#path));
  }
}

/** A text that names a moment beyond a bound. */
class TimeBound implements Condition {
  readonly types = ["string"] as const;
  readonly side: Side;
  readonly bound: number;

  constructor(side: Side, bound: number) {
    this.side = side;
    this.bound = bound;
  }

  get key(): string {
    return keyOf(this.side, `time ${this.bound}`);
  }

  holds(value: FoundValue): boolean {
    if (value.type !== "string") return false;
    const moment = timeOf(value.text);
    return !Number.isNaN(moment) && isOn(this.side, moment - this.bound);
  }

  lookUp(index: FieldLookup): Coverage {
    if (index.type !== "datetime") return "none";
    index.beyond(this.side, this.bound);
    return "all";
  }

  asTime(): this {
    return this;
  }
}

/** Infinity has no difference to itself. */
const compareNumbers = (a: number, b: number): number => (a === b ? 0 : a < b ? -1 : 1);

const expects = "a number or a string";

function operator(name: string, side: Side): Operator {
  const read = (operand: unknown, path: string): Condition => {
    if (typeof operand === "number" && !Number.isNaN(operand)) return new NumberBound(side, operand);
    if (typeof operand === "string") return new TextBound(side, operand, path);
    throw wrongOperand(path, operand, expects);
  };
  return { name, expects, read: (operand, path) => ({ condition: read(operand, path), isNegated: false }) };
}

export const order: readonly Operator[] = [
  operator("gt", { isGreater: true, isInclusive: false }),
  operator("gte", { isGreater: true, isInclusive: true }),
  operator("lt", { isGreater: false, isInclusive: false }),
  operator("lte", { isGreater: false, isInclusive: true }),
];
