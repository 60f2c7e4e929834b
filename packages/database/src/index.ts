// What does a program get that has the database in its own process?
//
// `open` gives the same `Database` as `connect` of @quiverdb/client does for a server, and `startServer` serves a directory. The engine is loaded
// when one of them is called: importing this file costs nothing, and tells a version of Node.js that is too old.

import type { Database } from "@quiverdb/client";
import type { ServerHandle, ServerOptions } from "@quiverdb/server/options";
import "./node-version.ts";
import type { OpenOptions } from "./open.ts";

export * from "@quiverdb/client";
export type { OpenOptions, ServerHandle, ServerOptions };

/**
 * Opens the database of a directory, or creates it. Only one process can have a directory open at a time.
 *
 * @example
 * ```ts no-run
 * import { open } from "@quiverdb/database";
 * await using database = await open("./data");
 * const books = await database.createCollection({ name: "books", dense_vector: { enabled: true, dimension: 2 } });
 * await books.upsert([{ id: "dune", dense_values: [0.9, 0.1] }]);
 * const { results } = await books.search.dense({ query_vector: [1, 0] });
 * ```
 * @throws QuiverError data_directory_in_use, data_directory_foreign, storage_failed, format_too_new, format_too_old, data_corrupted
 */
export async function open(dataDir: string, options: OpenOptions = {}): Promise<Database> {
  const { openEmbedded } = await import("./open.ts");
  return openEmbedded(dataDir, options);
}

/**
 * Serves the database of a directory over HTTP. Resolves when requests are accepted.
 *
 * @example
 * ```ts no-run
 * import { startServer } from "@quiverdb/database";
 * const server = await startServer({ dataDir: "./data", port: 8443, adminKey: "the-admin-key" });
 * console.log(server.url);
 * await server.close();
 * ```
 * @throws ConfigError for an invalid configuration, or if the port is in use
 */
export async function startServer(options: ServerOptions): Promise<ServerHandle> {
  const server = await import("@quiverdb/server/server");
  return server.startServer(options);
}
