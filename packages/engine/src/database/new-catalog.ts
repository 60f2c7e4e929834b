// How does a data directory get its catalog?
//
// LMDB creates a store in several commits, one for each table. After a power loss, an incomplete catalog would look like a damaged one. So
// the catalog is created under another name, synced and then renamed: a catalog that exists is complete.

import { mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { failpoint } from "../base/failpoint.ts";
import { prepareCatalog } from "../collection/format.ts";
import { catalogTables } from "../collection/tables.ts";
import { catalogDirectory, syncDirectory, syncStore } from "../runtime/data-directory.ts";
import { LmdbStore } from "../storage/lmdb.ts";

/** Creates an empty catalog durably, if there is none. @throws storage_failed, storage_full */
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
