// Does a server that crashes between any two steps keep all acknowledged data?
//
//   node tests/campaigns/failpoints.ts [--passages 1,2,3] [--only NAME] [--seed 1] [--lanes 2]
//
// The names of all failpoints are read from the engine's sources. For each, a server is started with the failpoint armed
// (crash/arm-failpoint; without that module failpoints do nothing), compared with the ledger as in the kill campaign, and driven through
// all operations on a collection until it crashes there. The next server, with the next failpoint armed, starts on the same directory. A
// failpoint that is never reached fails the campaign.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type QuiverClient, QuiverError } from "@quiver/client";
import { randomNumbers } from "@quiver/kernels/random";
import { canonical, Ledger, type Piece, type PieceState, type Written } from "./crash/ledger.ts";
import * as load from "./crash/load.ts";
import { mustListen, type ServerProcess, startServer } from "./crash/server-process.ts";
import { verify } from "./crash/verify.ts";
import { writeFigures } from "./figures.ts";

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
  say?: (line: string) => void;
};

export type FailpointResult = { reached: number; records: number; notReached: string[] };

/** Runs the campaign. @throws at the first violation, and for a failpoint that is never reached */
export async function failpointCampaign(options: FailpointOptions): Promise<FailpointResult> {
  const result: FailpointResult = { reached: 0, records: 0, notReached: [] };
  const waiting = options.passages.flatMap((passage) => options.names.map((name) => `${name}@${passage}`));
  await Promise.all(
    Array.from({ length: options.lanes }, async (_, number) => {
      const lane = new Lane(randomNumbers(options.seed * 1_000 + number), result);
      try {
        for (let point = waiting.shift(); point !== undefined; point = waiting.shift()) {
          if (point.startsWith(atFirstStart)) await endFirstStart(point, options, result);
          else await lane.end(point);
          options.say?.(point);
        }
        await lane.check();
      } finally {
        lane.remove();
      }
    }),
  );
  const missed = result.notReached.filter((point) => point.endsWith("@1"));
  if (missed.length > 0) throw new Error(`failpoints that were never reached: ${missed.join(", ")}`);
  return result;
}

/** Failpoints that only the first start on a directory reaches. */
const atFirstStart = "open:catalog-made@";

async function endFirstStart(point: string, { seed }: FailpointOptions, result: FailpointResult) {
  const lane = new Lane(randomNumbers(seed), result);
  try {
    await lane.end(point);
    await lane.check();
  } finally {
    lane.remove();
  }
}

class Lane {
  readonly #directory = mkdtempSync(join(tmpdir(), "quiver-failpoints-"));
  readonly #load: load.Load;
  readonly #piece: Piece;
  readonly #result: FailpointResult;

  constructor(random: () => number, result: FailpointResult) {
    this.#load = { ledger: new Ledger(), random, acknowledged: {}, stamp: 0 };
    this.#piece = this.#load.ledger.piece("own 0", 0, true, null);
    this.#result = result;
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  /** Runs a server that crashes at a failpoint, if it reaches it. */
  async end(point: string): Promise<void> {
    const server = startServer(this.#directory, { QUIVER_VERSIONS_KEPT: "4" }, false, point);
    try {
      const client = await server.listening;
      if (client) await this.#untilEnd(server, client, point);
      if (await this.#hasEnded(server)) this.#result.reached++;
      else this.#result.notReached.push(point);
    } catch (error) {
      throw new Error(`at ${point}: ${(error as Error).message}\n\nThe server said:\n${server.output()}`, {
        cause: error,
      });
    } finally {
      await server.kill();
    }
  }

  /** A last server, without a failpoint. */
  async check(): Promise<void> {
    const server = startServer(this.#directory);
    try {
      this.#result.records += (
        await verify(this.#load.ledger, await mustListen(server), this.#load.random)
      ).records;
    } finally {
      await server.kill();
    }
  }

  /** Whether the server killed itself; any other end is an error. */
  async #hasEnded(server: ServerProcess): Promise<boolean> {
    if (!server.hasEnded()) return false;
    const { code, signal } = await server.ended;
    if (signal !== "SIGKILL") throw new Error(`the server ended with ${signal ?? `code ${code}`}`);
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

async function command(): Promise<void> {
  const { values } = parseArgs({
    options: {
      passages: { type: "string", default: "1,2,3" },
      only: { type: "string" },
      seed: { type: "string", default: String(Date.now() % 1_000_000) },
      lanes: { type: "string", default: "2" },
    },
  });
  process.stdout.write(`seed ${values.seed}\n`);
  const names = failpoints().filter((name) => values.only === undefined || name.startsWith(values.only));
  const { reached, records, notReached } = await failpointCampaign({
    names,
    passages: values.passages.split(",").map(Number),
    seed: Number(values.seed),
    lanes: Number(values.lanes),
    say: (line) => process.stdout.write(`${line}\n`),
  });
  process.stdout.write(
    `${names.length} failpoints, ${reached} ends at them, ${records} records compared; passages that did not come: ${notReached.join(", ") || "none"}\n`,
  );
  if (values.only === undefined)
    writeFigures(
      "failpoints",
      `npm run test:failpoints -- --passages ${values.passages} --seed ${values.seed}`,
      {
        "failpoints, each reached": names.length,
        "server processes that ended at one": reached,
        "second and third passages that the sequence does not make": notReached.length,
        "records compared after restarts": records,
        "acknowledged operations lost": 0,
        "operations half applied": 0,
      },
    );
}

if (import.meta.main) await command();
