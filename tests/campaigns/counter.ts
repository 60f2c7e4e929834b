// Is an update ever lost that depends on the version which its writer has read?
//
//   node tests/campaigns/counter.ts [--rounds 10000] [--clients 64] [--kill-every 500]
//
// Many clients increment one counter: each reads it with its version, and writes the next number on a condition. Half of them ask that the
// version of the collection is still the current one, half that of the record, with a key: after a lost answer they send the same request until
// it is answered. The server is killed and started again now and then. All versions are kept, so the history of the record tells every state
// that there was: the numbers must follow one another without a gap, and every acknowledged write must be among them exactly once.

import { randomUUID } from "node:crypto";
import { type Collection, isQuiverError } from "@quiverdb/client";
import { command, TemporaryFolder } from "./campaign.ts";
import { ServerProcess } from "./server-process.ts";

export type CounterOptions = { rounds: number; clients: number; killEvery: number };
export type CounterCounts = {
  increments: number;
  refused: number;
  unknown: number;
  repeated: number;
  kills: number;
};

const id = "counter";
type State = { n: number; token: string };

/** Runs the campaign. @throws if an update is lost, or applied twice */
export async function counterCampaign({
  rounds,
  clients,
  killEvery,
}: CounterOptions): Promise<CounterCounts> {
  using folder = new TemporaryFolder("counter");
  const counts: CounterCounts = { increments: 0, refused: 0, unknown: 0, repeated: 0, kills: 0 };
  const acknowledged = new Set<string>();
  let server = new ServerProcess(folder.path, { flags: ["--versions-kept", "10"] });
  try {
    let client = await server.client();
    const made = await client.createCollection({
      name: "c",
      tf_idf_options: { enabled: true },
      config: { history: "all" },
    });
    await made.upsert({ id, text: "x", metadata: { n: 0, token: "first" } });
    let collection = made as Collection;
    /** Resolves when a server that was killed is there again. */
    let serving: Promise<unknown> = Promise.resolve();
    const restart = async () => {
      counts.kills++;
      await server.kill();
      server = new ServerProcess(folder.path, { flags: ["--versions-kept", "10"] });
      client = await server.client();
      collection = client.collection("c");
    };
    const byVersion = async (at: Collection, token: string): Promise<void> => {
      const { version_number: ifVersion } = await at.currentVersion();
      // What is read may be newer than the version: then the write is refused.
      const { n } = (await at.get(id, { retries: 0 })).metadata as State;
      await at.upsert({ id, text: "x", metadata: { n: n + 1, token } }, { ifVersion, retries: 0 });
    };
    const byRecord = async (at: Collection, token: string): Promise<void> => {
      const request = { ids: [id], include: ["metadata" as const, "version" as const] };
      const [read] = await at.fetch(request, { retries: 0 });
      const { version, metadata } = read as { version: number; metadata: State };
      const record = { id, text: "x", metadata: { n: metadata.n + 1, token }, if_match: version };
      for (let now = at; ; now = collection)
        try {
          await now.upsert(record, { idempotencyKey: token, retries: 0 });
          return;
        } catch (error) {
          if (!isQuiverError(error, "connection_failed") && !isQuiverError(error, "overloaded")) throw error;
          counts.repeated++;
          await new Promise((resolve) => setTimeout(resolve, 50));
          await serving;
        }
    };
    const increment = async (isKeyed: boolean): Promise<void> => {
      await serving;
      const token = randomUUID();
      try {
        await (isKeyed ? byRecord : byVersion)(collection, token);
        acknowledged.add(token);
        counts.increments++;
        if (counts.increments % killEvery === 0) serving = restart();
      } catch (error) {
        // An overloaded server refuses some before it looks at the version.
        const refusals = ["version_changed", "record_changed", "overloaded"] as const;
        if (refusals.some((code) => isQuiverError(error, code))) counts.refused++;
        else if (isQuiverError(error, "connection_failed")) counts.unknown++;
        else throw error;
      }
    };
    const work = async (_: unknown, client: number) => {
      while (counts.increments < rounds) await increment(client % 2 === 1);
    };
    await Promise.all(Array.from({ length: clients }, work));
    await serving;
    const { states } = await collection.history(id, { timeoutMs: 120_000 });
    const seen = states.map(({ vector }) => vector.metadata as State).reverse();
    for (const [i, { n }] of seen.entries())
      if (n !== i)
        throw new Error(`after ${i - 1} the counter is ${n}: an update was lost, or applied twice`);
    const tokens = new Set(seen.map(({ token }) => token));
    if (tokens.size !== seen.length) throw new Error("a write was applied twice");
    for (const token of acknowledged)
      if (!tokens.has(token)) throw new Error(`the acknowledged write ${token} is in no version`);
    return counts;
  } finally {
    await server.kill();
  }
}

if (import.meta.main)
  await command({
    name: "counter",
    options: { rounds: 10_000, clients: 64, killEvery: 500 },
    async run(options) {
      const { increments, refused, unknown, repeated, kills } = await counterCampaign(options);
      return {
        clients: options.clients,
        "increments acknowledged": increments,
        "writes refused, nearly all as another version was current": refused,
        "requests without an answer, not sent again": unknown,
        "writes sent again with their key": repeated,
        "kills of the server": kills,
        "updates lost, or applied twice": 0,
      };
    },
  });
