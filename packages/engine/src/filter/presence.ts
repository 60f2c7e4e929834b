// `exists`: has the field a value at all?
//
// Null counts as absent, as everywhere in the interface, and so does an array without elements, because an array stands for its elements.
// An object counts as a value.

import { type Condition, type Coverage, type FieldLookup, type Operator, wrongOperand } from "./condition.ts";

/** Any value. */
export class AnyValue implements Condition {
  readonly key = "exists";
  readonly types = null;

  holds(): boolean {
    return true;
  }

  lookUp(index: FieldLookup): Coverage {
    index.present();
    return "all";
  }

  asTime(): this {
    return this;
  }
}

const expects = "true or false";

export const presence: readonly Operator[] = [
  {
    name: "exists",
    expects,
    read(operand, path) {
      if (typeof operand !== "boolean") throw wrongOperand(path, operand, expects);
      return { condition: new AnyValue(), isNegated: !operand };
    },
  },
];
