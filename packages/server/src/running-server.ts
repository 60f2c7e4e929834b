// What does a program of this workspace get from a running server?

import type { Database } from "@quiverdb/engine/database/contract";
import type { ServerHandle } from "./options.ts";

export type RunningServer = ServerHandle & {
  /** The database behind the server, for a program that embeds both. It closes with the server. */
  readonly database: Database;
};
