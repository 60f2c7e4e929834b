// Which nodes are asked for a shard where one takes long?

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { serialize } from "node:v8";
import type { CatalogEntry } from "@quiverdb/engine/database/replication";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { Member } from "./members.ts";
import { ShardCalls } from "./shard-calls.ts";

/** How many calls each node has got. */
let asked = { slow: 0, fast: 0 };
let servers: Server[];
let members: Member[];
let living: Member[];

beforeAll(async () => {
  const node = async (name: "slow" | "fast", ms: number) => {
    const server = createServer(async (request, response) => {
      request.resume();
      asked[name]++;
      await delay(ms);
      response.end(serialize({ value: name }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return server;
  };
  servers = await Promise.all([node("slow", 2_500), node("fast", 0)]);
  members = servers.map((server) => {
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` } as Member;
  });
});
beforeEach(() => {
  living = members;
});
afterAll(() => {
  for (const server of servers) server.close().closeAllConnections();
});

const entry = { internalId: "c-0", definition: { name: "c#0", shard: { number: 0, of: 2 } } } as CatalogEntry;

/** Asks for a shard that both nodes serve, until the slow one is the first to be asked. */
async function ask(method: string): Promise<unknown> {
  for (;;) {
    asked = { slow: 0, fast: 0 };
    const calls = new ShardCalls(
      "secret",
      () => members,
      () => living,
      () => 0,
    );
    const answering = calls.ask(entry, { method, args: undefined, options: {} }, {});
    await delay(200);
    if (asked.slow > 0) return answering;
    await answering;
  }
}

test("[Y15] the next node is asked, too, where one takes long to answer a read", async () => {
  expect(await ask("count")).toBe("fast");
  expect(asked).toEqual({ slow: 1, fast: 1 });
});

test("[Y15] what takes long by itself is asked of one node while that lives", async () => {
  expect(await ask("check")).toBe("slow");
  expect(asked).toEqual({ slow: 1, fast: 0 });
  const answering = ask("check");
  await expect.poll(() => asked.slow).toBe(1);
  living = members.slice(1);
  expect(await answering).toBe("fast");
});
