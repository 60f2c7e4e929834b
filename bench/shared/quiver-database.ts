// How does the benchmark use the embedded engine, as programs do?
//
// Through the interface of the embedded engine (packages/engine/src/database/contract.ts): every record is written durably before it is
// indexed, and every search includes validation, views, ranking and fetching of the results.

import { join } from "node:path";
import type { Collection, VectorWrite } from "../../packages/engine/src/database/contract.ts";
import { openDatabase } from "../../packages/engine/src/database/database.ts";
import type { SearchResponse } from "../../packages/protocol/src/shapes/search.ts";
import { built } from "./built.ts";
import { ownCpuMs, untilQuiet } from "./quiet.ts";

type Kinds = { readonly dimension?: number; readonly sparse?: boolean; readonly text?: boolean };

/** A collection without indexes, alone in a new database. It is never closed: the process exits, and the directory is deleted. */
export async function openCollection(
  directory: string,
  { dimension, sparse, text }: Kinds,
): Promise<Collection> {
  const database = await openDatabase({ dataDir: join(directory, "data") });
  await database.createCollection({
    name: "bench",
    dense_vector:
      dimension === undefined ? { enabled: false } : { enabled: true, dimension, auto_create_index: false },
    sparse_vector: { enabled: sparse ?? false, auto_create_index: false },
    tf_idf_options: { enabled: text ?? false },
    config: {},
  });
  return database.collection("bench");
}

/** Writes rows whose ids go up from `first`. */
export const upsertRows = <Row>(
  collection: Collection,
  rows: readonly Row[],
  first: number,
  recordOf: (row: Row) => Omit<VectorWrite, "id">,
): Promise<void> => collection.upsert(rows.map((row, i) => ({ id: String(first + i), ...recordOf(row) })));

/** How an engine of this collection completes its build: all is in the indexes; then the idle collection puts them in order. */
export const finishOf = (collection: Collection) => ({
  async finish() {
    await collection.indexed();
    await built(() => collection.indexes());
  },
  settle: () => untilQuiet(ownCpuMs),
});

export const idsOf = ({ results }: SearchResponse): string[] => results.map(({ id }) => id);
