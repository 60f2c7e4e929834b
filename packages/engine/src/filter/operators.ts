// Which operators has a leaf of a filter?

import type { Operator } from "./condition.ts";
import { equality } from "./equality.ts";
import { order } from "./order.ts";
import { presence } from "./presence.ts";
import { textPart } from "./text-part.ts";

/** By name. A new group of operators is a file and a line here. */
export const operators: ReadonlyMap<string, Operator> = new Map(
  [equality, order, presence, textPart].flat().map((operator) => [operator.name, operator]),
);
