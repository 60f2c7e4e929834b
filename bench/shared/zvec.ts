// How is a collection of zvec filled?

import { join } from "node:path";
import { rival } from "./engine.ts";
import { bytesBelow } from "./files.ts";

const batch = 1_000;

/** The module, configured once per process to use one thread and no output. */
export function openZvec() {
  const zvec = rival("@zvec/zvec");
  zvec.ZVecInitialize({ queryThreads: 1, optimizeThreads: 1, logLevel: zvec.ZVecLogLevel.ERROR });
  return zvec;
}

/** A new collection on disk, of one field or vector; `recordOf` converts a row into the inserted fields besides its id. */
export function zvecCollection<Row>(
  zvec: ReturnType<typeof openZvec>,
  directory: string,
  schema: object,
  recordOf: (row: Row) => object,
) {
  const path = join(directory, "collection");
  const collection = zvec.ZVecCreateAndOpen(
    path,
    new zvec.ZVecCollectionSchema({ name: "bench", ...schema }),
  );
  return {
    collection,
    add(rows: readonly Row[], first: number): void {
      for (let at = 0; at < rows.length; at += batch) {
        const records = rows
          .slice(at, at + batch)
          .map((row, i) => ({ id: String(first + at + i), ...recordOf(row) }));
        const refused = collection.insertSync(records).find(({ ok }: { ok: boolean }) => !ok);
        if (refused !== undefined) throw new Error(refused.message);
      }
    },
    finish: (): void => collection.optimizeSync({ concurrency: 1 }),
    /** The ids that a query finds, best first. */
    idsOf: (query: object): string[] =>
      collection.querySync({ outputFields: [], ...query }).map(({ id }: { id: string }) => id),
    bytes: (counts?: (path: string) => boolean): number => bytesBelow(path, counts),
  };
}
