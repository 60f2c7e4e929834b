// How is a database opened in the same process?

import { Database } from "@quiverdb/client";
import { openDatabase } from "@quiverdb/engine/database/database";
import type { DatabaseOptions } from "@quiverdb/engine/database/options";
import { EmbeddedTransport } from "./embedded.ts";

/** How a database is opened. */
export type OpenOptions = Omit<DatabaseOptions, "dataDir" | "clock" | "readerThreads" | "indexWaitMs">;

export async function openEmbedded(dataDir: string, options: OpenOptions): Promise<Database> {
  return new Database(new EmbeddedTransport(await openDatabase({ ...options, dataDir })));
}
