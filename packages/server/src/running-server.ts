// What does a program get from a running server?

import type { Database } from "@quiver/engine/database/contract";

export type RunningServer = {
  /** URL for clients, without a trailing slash: `http://127.0.0.1:8443`, or `https` with a certificate. */
  readonly url: string;
  /** The port that the server listens on. */
  readonly port: number;
  /** The database behind the server, for a program that embeds both. It closes with the server. */
  readonly database: Database;
  /** File that this start wrote a generated admin key to; undefined if none was generated. */
  readonly adminKeyFile: string | undefined;
  /**
   * Stops the server: accepts no new connection, finishes every accepted request, then closes the database. A second call waits for the
   * first.
   */
  close(): Promise<void>;
};
