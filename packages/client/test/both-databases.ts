// How does a test run over both ways to a database?
//
// Each in a directory of its own, for one group of tests: a server over HTTP, and the same process.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open, startServer } from "@quiverdb/database";
import { afterAll, beforeAll, describe } from "vitest";
import { endNodes, inCluster, startNodes } from "../../server/test/nodes.ts";
import { connect, type Database } from "../src/client.ts";

/** Where a group's database is: at the address of a server with a key, or in a directory that this process has open. */
export type Place = { readonly url?: string; readonly apiKey?: string; readonly dataDir: string };

const apiKey = "the-admin-key";

/** Groups the tests twice. @param tests get functions that give the database and its place once the tests run */
export function overBothDatabases(tests: (database: () => Database, place: () => Place) => void): void {
  describe.each([
    {
      where: "over HTTP",
      start: async (dataDir: string) => {
        const config = { dataDir, port: 0, adminKey: apiKey, logLevel: "silent" as const };
        if (!inCluster) {
          const server = await startServer(config);
          const database: Database = connect(server.url, { apiKey });
          return { database, url: server.url, stop: () => server.close() };
        }
        const { url, urls, close } = await startNodes(config);
        // Each request to the next node; the client sends it the positions of the answers before.
        let asked = 0;
        const next: typeof fetch = (input, init) => {
          const { pathname, search } = new URL(String(input));
          return fetch(urls[asked++ % urls.length] + pathname + search, init);
        };
        const database: Database = connect(url, { apiKey, fetch: next });
        return { database, url, stop: () => close().then(() => endNodes(dataDir)) };
      },
    },
    {
      where: "in process",
      start: async (dataDir: string) => {
        const database = await open(dataDir);
        return { database, url: undefined, stop: () => database.close() };
      },
    },
  ])("$where", ({ start }) => {
    let running: { database: Database; url: string | undefined; stop: () => Promise<void> };
    let dataDir: string;
    beforeAll(async () => {
      dataDir = mkdtempSync(join(tmpdir(), "quiver-both-"));
      running = await start(dataDir);
    });
    afterAll(async () => {
      await running.stop();
      rmSync(dataDir, { recursive: true });
    });
    tests(
      () => running.database,
      () => ({ dataDir, ...(running.url !== undefined && { url: running.url, apiKey }) }),
    );
  });
}
