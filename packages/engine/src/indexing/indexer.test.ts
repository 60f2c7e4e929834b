import { expect, test } from "vitest";
import { loudBackground } from "../../test/base/loud-background.ts";
import { defineCollection } from "../collection/definition.ts";
import { prepareCollection } from "../collection/format.ts";
import { collectionTables } from "../collection/tables.ts";
import { MemoryStore } from "../storage/memory.ts";
import { Indexer } from "./indexer.ts";

test("what is retired is freed though nothing is written any more, when no search goes on that has begun before", async () => {
  const store = new MemoryStore(collectionTables);
  const definition = defineCollection({
    name: "c",
    dense_vector: { enabled: true, dimension: 2 },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: false },
    config: {},
  } as never);
  prepareCollection(store, 1, definition);
  const indexer = new Indexer(store, { onComplete: () => {} }, loudBackground());
  const view = await indexer.acquireView(0, []);
  let freed = 0;
  indexer.retire(() => freed++);
  await expect.poll(() => indexer.viewAt(0) !== view).toBe(true);
  expect(freed).toBe(0);
  view.unpin();
  await expect.poll(() => freed).toBe(1);
  indexer.stop(new Error("the test is over"));
});
