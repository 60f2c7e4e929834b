// Which request keys of published clients does the server ignore?
//
// They are accepted and ignored on the endpoints to which those clients send them, and rejected elsewhere. Those clients also send
// `auto_create_index` (vectors of a collection) and `username` (session); these have a meaning here and are part of the shapes.

import type { OperationName } from "./operations.ts";

export type ClientKey = {
  readonly key: string;
  /** Accepted at the top level of the bodies of these requests. */
  readonly routes: readonly OperationName[];
  readonly why: string;
};

/** The complete list. The OpenAPI document omits them, because new programs have no reason to send them. */
export const clientKeys: readonly ClientKey[] = [
  {
    key: "index_type",
    routes: [
      "createTransaction",
      "addVector",
      "upsertVectors",
      "commitTransaction",
      "abortTransaction",
      "streamingUpsert",
    ],
    why: "Those clients open a transaction for one index. Here a transaction covers the collection, and each record shows what it carries.",
  },
  {
    key: "data_type",
    routes: ["createDenseIndex", "createSparseIndex", "createTextIndex"],
    why: "Repeats the kind of index, which the path names. The stored type of a dense index is set by quantization.properties.data_type.",
  },
  {
    key: "metadata_schema",
    routes: ["createCollection"],
    why: "Metadata has no schema here: it may have any key.",
  },
];

/** Keys to ignore in the body of a request. */
export function clientKeysOf(route: OperationName): readonly string[] {
  return byRoute.get(route) ?? [];
}

const byRoute = new Map<OperationName, string[]>();
for (const { key, routes } of clientKeys)
  for (const route of routes) byRoute.set(route, [...(byRoute.get(route) ?? []), key]);
