// Does a server that crashes between any two steps keep all acknowledged data?
//
//   node tests/campaigns/failpoints.ts [--passages 1,2,3] [--only NAME] [--lanes 2]
//
// The names of all failpoints are read from the engine's sources. For each, a server is started with the failpoint armed
// (crash/arm-failpoint; without that module failpoints do nothing), compared with the ledger as in the kill campaign, and driven through
// all operations on a collection until it crashes there. The next server, with the next failpoint armed, starts on the same directory. A
// failpoint that is never reached fails the campaign.

import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Collection, type QuiverClient, QuiverError } from "@quiverdb/client";
import { randomNumbers } from "@quiverdb/kernels/random";
import { command, inLanes, type Say, say, TemporaryFolder } from "./campaign.ts";
import { canonical, Ledger, type Piece, type PieceState, type Written } from "./crash/ledger.ts";
import * as load from "./crash/load.ts";
import { verify } from "./crash/verify.ts";
import { ServerProcess } from "./server-process.ts";

const engine = resolve(import.meta.dirname, "../../packages/engine/src");

/** Names of all failpoints in the engine's sources. */
export function failpoints(): string[] {
  const names: string[] = [];
  for (const file of readdirSync(engine, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".ts") || file.endsWith(".test.ts")) continue;
    for (const [, name] of readFileSync(join(engine, file), "utf8").matchAll(/failpoint\("([^"]+)"\)/g))
      names.push(name);
  }
  if (new Set(names).size !== names.length) throw new Error("two failpoints have one name");
  return names.sort();
}

export type FailpointOptions = {
  names: readonly string[];
  /** The passages of each failpoint at which the server crashes. The first must be reached; later ones are optional. */
  passages: readonly number[];
  seed: number;
  lanes: number;
  /** Called after each failpoint. */
  say?: Say;
};

export type FailpointResult = { reached: number; records: number; notReached: string[] };

/** Runs the campaign. @throws at the first violation, and for a failpoint that is never reached */
export async function failpointCampaign(options: FailpointOptions): Promise<FailpointResult> {
  const result: FailpointResult = { reached: 0, records: 0, notReached: [] };
  const { names, passages, seed, lanes } = options;
  const points = passages.flatMap((passage) => names.map((name) => `${name}@${passage}`));
  using all = new DisposableStack();
  const newLane = (number: number) => all.use(new Lane(randomNumbers(seed * 1_000 + number), result));
  const used = Array.from({ length: lanes }, (_, number) => newLane(number));
  await inLanes(points, lanes, async (point, number) => {
    const isFirst = point.startsWith(atFirstStart);
    const lane = isFirst ? newLane(0) : used[number];
    await lane.end(point);
    if (isFirst) await lane.check();
    options.say?.(point);
  });
  for (const lane of used) await lane.check();
  const missed = result.notReached.filter((point) => point.endsWith("@1"));
  if (missed.length > 0) throw new Error(`failpoints that were never reached: ${missed.join(", ")}`);
  return result;
}

/** Failpoints that only the first start on a directory reaches. */
const atFirstStart = "open:catalog-made@";

class Lane {
  readonly #folder = new TemporaryFolder("failpoints");
  readonly #load: load.Load;
  readonly #piece: Piece;
  readonly #result: FailpointResult;

  constructor(random: () => number, result: FailpointResult) {
    this.#load = { ledger: new Ledger(), random, acknowledged: {}, stamp: 0 };
    this.#piece = this.#load.ledger.piece("own 0", 0, true, null);
    this.#result = result;
  }

  [Symbol.dispose](): void {
    this.#folder[Symbol.dispose]();
  }

  /** Runs a server that crashes at a failpoint, if it reaches it. */
  async end(point: string): Promise<void> {
    const flags = ["--versions-kept", "4"];
    await using server = new ServerProcess(this.#folder.path, { flags, failpoint: point });
    try {
      if ((await server.listening) !== null) await this.#untilEnd(server, await server.client(), point);
      if (await this.#hasEnded(server)) this.#result.reached++;
      else this.#result.notReached.push(point);
    } catch (error) {
      throw new Error(`at ${point}: ${(error as Error).message}\n\nThe server said:\n${server.output()}`, {
        cause: error,
      });
    }
  }

  /** A last server, without a failpoint. */
  async check(): Promise<void> {
    await using server = new ServerProcess(this.#folder.path);
    const { records } = await verify(this.#load.ledger, await server.client(), this.#load.random);
    this.#result.records += records;
  }

  /** Whether the server killed itself; any other end is an error. */
  async #hasEnded(server: ServerProcess): Promise<boolean> {
    if (!server.hasEnded()) return false;
    if ((await server.ended).signal !== "SIGKILL")
      throw new Error(`the server ended with ${server.ending()}`);
    return true;
  }

  async #untilEnd(server: ServerProcess, client: QuiverClient, point: string): Promise<void> {
    try {
      this.#result.records += (await verify(this.#load.ledger, client, this.#load.random)).records;
      await this.#goThrough(client, point);
    } catch (error) {
      const cause = (error as Error).cause ?? error;
      const isGone = [error, cause].some((e) => e instanceof QuiverError && e.code === "connection_failed");
      if (!isGone) throw error;
      await server.ended;
    }
  }

  /** All operations on a collection, starting from any state. */
  async #goThrough(client: QuiverClient, point: string): Promise<void> {
    const [work, piece] = [this.#load, this.#piece];
    const collection = client.collection(piece.collection);
    const state = () => piece.state as PieceState;
    // Left by a server that crashed while it created or restored one.
    await load.dropSnapshots(work, client, piece.collection);
    if (piece.state) await load.drop(work, client, piece);
    await load.create(work, client, piece);
    for (const kind of ["dense", "sparse", "text"] as const)
      await load.index(work, collection, piece, state(), kind);
    if (point.startsWith("merge")) {
      for (let part = 0; part < 9; part++)
        await load.upsert(work, collection, piece, state(), wideRecords(part));
      await client.collection(piece.collection).load();
    }
    await load.upsert(work, collection, piece, state(), this.#records(1_100));
    await collection.waitForIndex();
    await load.reside(work, collection, false);
    await load.reside(work, collection, true);
    // Replaced records are removed from the graph, which is then repaired while the builders are idle.
    await load.upsert(work, collection, piece, state(), this.#records(1_000));
    await collection.waitForIndex();
    await collection.search.dense({ query_vector: [1, 0, 0, 0] });
    if (point.startsWith("repair")) await sleep(2_000);
    for (const how of ["commit", "abort", "commit"] as const) {
      if (!state().transaction) await load.open(work, collection, piece, state());
      for (let i = 0; i < 4; i++) await load.stage(work, collection, piece, state());
      await load.close(work, collection, piece, state(), how);
      await load.remove(work, collection, piece, state());
    }
    await this.#keepAndForget(collection, point);
    await load.reside(work, collection, false);
    await load.reside(work, collection, true);
    await load.index(work, collection, piece, state(), "dense");
    const taken = await load.snapshot(work, collection, state());
    await load.upsert(work, collection, piece, state());
    await load.restore(work, collection, piece, taken);
    await load.remove(work, collection, piece, state());
    await load.dropSnapshots(work, client, piece.collection);
    await load.drop(work, client, piece);
    await load.create(work, client, piece);
  }

  /** Earlier versions are kept, named, and given up; what nobody can read any more is removed in the background, every few seconds. */
  async #keepAndForget(collection: Collection, point: string): Promise<void> {
    const [work, piece] = [this.#load, this.#piece];
    await collection.setHistory("all", { retries: 0 });
    const tag = `t${++work.stamp}`;
    await collection.putTag(tag, undefined, { retries: 0 });
    await load.upsert(work, collection, piece, piece.state as PieceState);
    await load.remove(work, collection, piece, piece.state as PieceState);
    await collection.at({ version: tag }).count();
    await collection.setHistory({ versions: 1 }, { retries: 0 });
    await collection.deleteTag(tag, { retries: 0 });
    if (point.startsWith("vacuum")) await sleep(12_000);
  }

  #records(count: number): Written[] {
    return Array.from({ length: count }, (_, i) =>
      load.randomRecord(this.#load.random, `c0-${i}`, ++this.#load.stamp),
    );
  }
}

/** Records with so many dimensions that a few records fill a segment of the sparse index, so that segments are merged. */
function wideRecords(part: number): Written[] {
  return Array.from({ length: 9 }, (_, i) => {
    const indices = Array.from({ length: 30_000 }, (__, n) => n + 6);
    const record = {
      id: `c0-wide-${part}-${i}`,
      sparse_indices: indices,
      sparse_values: indices.map((n) => (n % 7) + 1),
    };
    return { record, canonical: canonical(record) };
  });
}

if (import.meta.main)
  await command({
    name: "failpoints",
    options: { passages: "1,2,3", only: "", lanes: 2 },
    async run({ passages, only, ...options }) {
      const names = failpoints().filter((name) => name.startsWith(only));
      const each = passages.split(",").map(Number);
      const { reached, records, notReached } = await failpointCampaign({
        ...options,
        names,
        passages: each,
        say,
      });
      say(`passages that did not come: ${notReached.join(", ") || "none"}`);
      return {
        "failpoints, each reached": names.length,
        "server processes that ended at one": reached,
        "second and third passages that did not occur": notReached.length,
        "records compared after restarts": records,
        "acknowledged operations lost": 0,
        "operations half applied": 0,
      };
    },
    isWhole: ({ only }) => only === "",
  });
