// What does a program hold in its hands while a server runs?

import type { Database } from "@quiver/engine/database/contract";

export type RunningServer = {
  /** Address for clients, without a slash at the end: `http://127.0.0.1:8443`, or `https` with a certificate. */
  readonly url: string;
  /** The port that the server listens on. */
  readonly port: number;
  /** The database behind the server, for a program that embeds both. It closes with the server. */
  readonly database: Database;
  /** File to which this start wrote a generated admin key; undefined when none was made. */
  readonly adminKeyFile: string | undefined;
  /**
   * Stops: takes no new connection, finishes every request that was accepted, then closes the database.
   * A second call waits for the first.
   */
  close(): Promise<void>;
};
