// How does a data directory get its catalog?
//
// LMDB makes a store in several commits, a table at a time. A catalog of which a power loss has left only some could not be told
// from one that is damaged, so it is made beside its place, synced, and then takes its name: a catalog that is there is whole.

import { mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { failpoint } from "../base/failpoint.ts";
import { prepareCatalog } from "../collection/format.ts";
import { catalogTables } from "../collection/tables.ts";
import { catalogDirectory, syncDirectory, syncStore } from "../runtime/data-directory.ts";
import { LmdbStore } from "../storage/lmdb.ts";

/** Makes an empty catalog, durably, where there is none. @throws storage_failed, storage_full */
export async function makeCatalog(dataDir: string): Promise<void> {
  const making = `${catalogDirectory(dataDir)}.new`;
  rmSync(making, { recursive: true, force: true });
  mkdirSync(making, { mode: 0o700 });
  const store = new LmdbStore(making, catalogTables);
  try {
    prepareCatalog(store);
  } finally {
    await store.close();
  }
  rmSync(join(making, "lock.mdb"), { force: true });
  syncStore(making);
  failpoint("open:catalog-made");
  renameSync(making, catalogDirectory(dataDir));
  syncDirectory(dataDir);
}
