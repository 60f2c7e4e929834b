// Which keys do published clients send that mean nothing here?
//
// They are accepted and ignored where those clients send them, and nowhere else. `auto_create_index` of a collection's
// vectors and `username` of a session, which they send too, are fields with a meaning and stand in the shapes.

import type { RouteName } from "./routes.ts";

export type ClientKey = {
  readonly key: string;
  /** In the body of these requests, at its top. */
  readonly routes: readonly RouteName[];
  readonly why: string;
};

/** All there are. None is in the OpenAPI document: new programs have no reason to send them. */
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
    why: "A transaction used to be for one index. Here it is for the collection, and a record says itself what it carries.",
  },
  {
    key: "data_type",
    routes: ["createDenseIndex", "createSparseIndex", "createTextIndex"],
    why: "The kind of index once more, which the path says. What a dense index stores says quantization.properties.data_type.",
  },
  {
    key: "metadata_schema",
    routes: ["createCollection"],
    why: "Metadata has no schema here: every key of it is the user's.",
  },
];

/** Keys to ignore in the body of a request. */
export function clientKeysOf(route: RouteName): readonly string[] {
  return byRoute.get(route) ?? [];
}

const byRoute = new Map<RouteName, string[]>();
for (const { key, routes } of clientKeys)
  for (const route of routes) byRoute.set(route, [...(byRoute.get(route) ?? []), key]);
