// Which operators has a leaf of a filter?

import { type Condition, type Coverage, type FieldLookup, type Operator, wrongOperand } from "./condition.ts";
import { equality } from "./equality.ts";
import { order } from "./order.ts";
import { textPart } from "./text-part.ts";

/**
 * `exists`: the field has any value. Null counts as absent, as everywhere in the interface, and so does an array without elements, because an
 * array stands for its elements. An object counts as a value.
 */
class AnyValue implements Condition {
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

const presence: readonly Operator[] = [
  {
    name: "exists",
    expects,
    read(operand, path) {
      if (typeof operand !== "boolean") throw wrongOperand(path, operand, expects);
      return { condition: new AnyValue(), isNegated: !operand };
    },
  },
];

/** By name. A new group of operators is a file and a line here. */
export const operators: ReadonlyMap<string, Operator> = new Map(
  [equality, order, presence, textPart].flat().map((operator) => [operator.name, operator]),
);
