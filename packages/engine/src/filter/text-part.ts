// `contains`, `prefix`: has a string this part, or this beginning?
//
// Strings are compared code point by code point: with case, and as they were written. An array needs no operator of its own to be asked
// for an element: `eq` matches if any element does.

import type { Steps } from "../base/steps.ts";
import type { FoundValue } from "../metadata/scan.ts";
import { type Condition, type Coverage, type FieldLookup, type Operator, wrongOperand } from "./condition.ts";

const expects = "a string";

/** Whether cutting a text at a place would halve a character outside the basic plane. */
function isInside(text: string, at: number): boolean {
  const before = text.charCodeAt(at - 1);
  const after = text.charCodeAt(at);
  return before >= 0xd800 && before <= 0xdbff && after >= 0xdc00 && after <= 0xdfff;
}

function* lookUpTexts(index: FieldLookup, passes: (text: string) => boolean): Steps<Coverage> {
  if (index.type === "datetime") return "none";
  if (index.type === "keyword") yield* index.textsThat(passes);
  // Strings that are too long for an index are in none.
  return "typed";
}

/** A string that contains another. */
class Contains implements Condition {
  readonly types = ["string"] as const;
  readonly part: string;

  constructor(part: string) {
    this.part = part;
  }

  get key(): string {
    return `contains ${JSON.stringify(this.part)}`;
  }

  holds(value: FoundValue): boolean {
    return value.type === "string" && this.#isIn(value.text);
  }

  #isIn(text: string): boolean {
    for (let at = text.indexOf(this.part); at >= 0; at = text.indexOf(this.part, at + 1))
      if (!isInside(text, at) && !isInside(text, at + this.part.length)) return true;
    return false;
  }

  lookUp(index: FieldLookup): Steps<Coverage> {
    return lookUpTexts(index, (text) => this.#isIn(text));
  }

  /** The text stays the text. */
  asTime(): this {
    return this;
  }
}

/** A string that begins with another. */
export class Prefix implements Condition {
  readonly types = ["string"] as const;
  readonly prefix: string;

  constructor(prefix: string) {
    this.prefix = prefix;
  }

  get key(): string {
    return `prefix ${JSON.stringify(this.prefix)}`;
  }

  holds(value: FoundValue): boolean {
    return value.type === "string" && this.#begins(value.text);
  }

  #begins(text: string): boolean {
    return text.startsWith(this.prefix) && !isInside(text, this.prefix.length);
  }

  lookUp(index: FieldLookup): Steps<Coverage> {
    return lookUpTexts(index, (text) => this.#begins(text));
  }

  asTime(): this {
    return this;
  }
}

const operator = (name: string, make: (operand: string) => Condition): Operator => ({
  name,
  expects,
  read(operand, path) {
    if (typeof operand !== "string") throw wrongOperand(path, operand, expects);
    return { condition: make(operand), isNegated: false };
  },
});

export const textPart: readonly Operator[] = [
  operator("contains", (part) => new Contains(part)),
  operator("prefix", (prefix) => new Prefix(prefix)),
];
