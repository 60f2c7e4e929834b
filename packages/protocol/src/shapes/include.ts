// Which fields can a record or a result have besides its id?

import Type from "typebox";
import { Maybe, OneOf } from "./common.ts";

/** What a result or a record can have besides its id. */
export const includable = [
  "metadata",
  "text",
  "dense_values",
  "dense_f32",
  "sparse_values",
  "version",
] as const;
export type Includable = (typeof includable)[number];

/** @param otherwise what there is without it */
export const Include = (otherwise: string) =>
  Maybe(
    Type.Array(OneOf(includable), {
      description: `Any of ${includable.join(", ")}. ${otherwise}`,
      maxItems: includable.length,
      uniqueItems: true,
    }),
  );
