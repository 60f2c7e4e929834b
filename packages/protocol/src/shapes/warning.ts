// What does an answer say beside what was asked for?

import Type, { type Static } from "typebox";
import { limits } from "../limits.ts";
import { OneOf } from "./common.ts";

/** Codes are stable, like those of errors. */
export const warningCodes = ["absent_field", "type_mismatch"] as const;

export const Warning = Type.Object(
  {
    code: OneOf(warningCodes, {
      description:
        "absent_field: no record has a value at the field. type_mismatch: the field's metadata index is of another type than what it is compared with.",
    }),
    path: Type.String({ description: "The place in the request, such as `filter.colour`." }),
    message: Type.String({ description: "What is probably wrong, in words, with the nearest known name." }),
  },
  { description: "A condition of a filter that no record can satisfy." },
);

/** A key of an answer. */
export const Warnings = Type.Optional(
  Type.Array(Warning, {
    maxItems: limits.warningsMax,
    description:
      "Present where no record matches the filter, and a condition that must hold explains it; of facets of all records, also where a field has no values. Not for keys with a filter.",
  }),
);

export type Warning = Static<typeof Warning>;
