// Can one client make the server unusable for others?
//
//   node tests/campaigns/fairness.ts [--seconds 15] [--only TEXT|TEXT] [--judge]
//
// A server runs in its own process with a collection of 20,000 records of 128 dimensions, with sparse vectors and texts. A well-behaved
// client sends 20 small searches and reads 4 records per second, first alone, then during each attack (fairness/attacks.ts), which runs in a third process with
// its own key. `/health/live` is polled in both cases.
//
// Promised, and checked with --judge on an otherwise idle machine: the client's p99 during an attack is at most five times its p99 without
// one, or 50 ms, whichever is more; none of its searches is rejected; /health/live is answered within 50 ms. How long the event loop is
// blocked at a time is reported in processor time of the server's thread, which other processes do not affect.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { QuiverClient } from "@quiverdb/client";
import { randomNumbers } from "@quiverdb/kernels/random";
import { command, type Say, say, TemporaryFolder } from "./campaign.ts";
import type { Holds } from "./child-probe.ts";
import { type AttackOrder, type AttackReport, allAttacks } from "./fairness/attacker.ts";
import { type Attack, bulk, bulkDimension, collection, dimension, recordOf } from "./fairness/attacks.ts";
import { words } from "./fairness/words.ts";
import type { Figures } from "./figures.ts";
import { type ServerProcess, startPatientServer } from "./server-process.ts";
import { quantile } from "./soak-watch.ts";

const attackerPath = resolve(import.meta.dirname, "fairness/attacker.ts");

export type FairnessOptions = {
  /** Duration of each attack, and of the measurement without one. */
  readonly seconds: number;
  readonly records: number;
  /** Only attacks whose names contain this text, or one of several with `|` between. */
  readonly only: string;
};

const searchesPerSecond = 20;
const healthPerSecond = 10;
const readsPerSecond = 4;
const p99MsLeast = 50;
const p99Factor = 5;
/** Beside clients that write in bulk, however slow the quiet server is. */
const bulkP99MsMax = 60;
const healthMsMax = 50;

type Seen = {
  readonly searchMs: number[];
  readonly readMs: number[];
  readonly healthMs: number[];
  readonly statuses: Map<number, number>;
};

/** The effect of one attack on the client. */
export type Outcome = {
  readonly attack: string;
  readonly p50: number;
  readonly p99: number;
  readonly worst: number;
  readonly readP99: number;
  readonly healthWorst: number;
  readonly refused: number;
  readonly answered: number;
  readonly holds: Holds;
  readonly report: AttackReport;
};

/** Runs the attacks, one after the other. @param miss is told each promise that is broken */
export async function fairness(options: FairnessOptions, tell: Say, miss: Say): Promise<Outcome[]> {
  using folder = new TemporaryFolder("fairness");
  const usual = ["--queue-wait", "2s", "--request-deadline", "1m"];
  await using server = await startPatientServer(folder.join("data"), usual);
  const keys = await prepare(await server.client(), options.records, tell);
  const texts = options.only.split("|");
  const isWanted = ({ name }: Attack) => texts.some((text) => name.includes(text));
  const outcomes: Outcome[] = [];
  await server.holds();
  const calm = await watch(server.port, keys.calm, 2 * options.seconds);
  const quiet = outcomeOf("none", calm, await server.holds(), none);
  tell(lineOf(quiet));
  outcomes.push(quiet);
  for (const attack of allAttacks().filter(isWanted)) {
    const outcome = await play(attack, server, keys, options.seconds);
    tell(lineOf(outcome));
    outcomes.push(outcome);
  }
  for (const missed of missesOf(outcomes)) miss(missed);
  return outcomes;
}

const none: AttackReport = { statuses: {}, bytes: 0 };

type Keys = { readonly calm: string; readonly read: string; readonly write: string };

async function prepare(client: QuiverClient, records: number, tell: Say): Promise<Keys> {
  const shared = await client.createCollection({
    name: collection,
    dense_vector: { enabled: true, dimension },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    config: {},
    store_raw_text: true,
  });
  await shared.createDenseIndex({ distance_metric_type: "cosine" });
  await shared.createSparseIndex({});
  await shared.createTextIndex({});
  const random = randomNumbers(1);
  for (let from = 0; from < records; from += 500)
    await shared.upsert(
      Array.from({ length: Math.min(500, records - from) }, (_, i) => recordOf(from + i, random)),
    );
  await shared.load();
  const written = { name: bulk, dense_vector: { enabled: true, dimension: bulkDimension }, config: {} };
  await (await client.createCollection(written)).createDenseIndex({ distance_metric_type: "cosine" });
  tell(`${records} records are there`);
  const keyOf = async (name: string, role: "read" | "write") => (await client.createKey({ name, role })).key;
  return {
    calm: await keyOf("calm", "read"),
    read: await keyOf("reader", "read"),
    write: await keyOf("writer", "write"),
  };
}

/** Runs an attack and the client at the same time. */
async function play(attack: Attack, server: ServerProcess, keys: Keys, seconds: number): Promise<Outcome> {
  const { port } = server;
  const order: AttackOrder = { port, key: keys[attack.role], attack: attack.name };
  const attacker = spawn(process.execPath, [attackerPath, JSON.stringify(order)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(attacker, "close");
  const lines = createInterface({ input: attacker.stdout });
  const next = async () => String((await Promise.race([once(lines, "line"), ended]))[0]);
  try {
    await next();
    await sleep(500);
    await server.holds();
    const seen = await watch(port, keys.calm, seconds);
    const holds = await server.holds();
    const last = next();
    attacker.kill("SIGTERM");
    return outcomeOf(attack.name, seen, holds, JSON.parse(await last) as AttackReport);
  } finally {
    attacker.kill("SIGKILL");
    await ended;
    // The requests that the attack left in progress end first.
    await sleep(1_000);
  }
}

/** Sends small searches and requests to /health/live at fixed rates, whether they are answered or not. */
async function watch(port: number, key: string, seconds: number): Promise<Seen> {
  const agent = new Agent({ keepAlive: true });
  const random = randomNumbers(99);
  const seen: Seen = { searchMs: [], readMs: [], healthMs: [], statuses: new Map() };
  const ask = async (method: string, path: string, body: Buffer | undefined, times: number[]) => {
    const beganMs = performance.now();
    const status = await new Promise<number>((done) => {
      const headers = {
        authorization: `Bearer ${key}`,
        ...(body && { "content-type": "application/json", "content-length": body.length }),
      };
      const sent = request({ host: "127.0.0.1", port, method, path, agent, headers }, (response) => {
        response
          .on("end", () => done(response.statusCode ?? 0))
          .on("error", () => done(0))
          .resume();
      });
      sent.on("error", () => done(0));
      sent.end(body);
    });
    times.push(performance.now() - beganMs);
    if (body !== undefined) seen.statuses.set(status, (seen.statuses.get(status) ?? 0) + 1);
  };
  const pending: Promise<void>[] = [];
  const beganMs = performance.now();
  const loop = async (perSecond: number, act: () => Promise<void>) => {
    for (let i = 0; i < seconds * perSecond; i++) {
      const dueMs = beganMs + (1_000 * i) / perSecond;
      const waitMs = dueMs - performance.now();
      if (waitMs > 0) await sleep(waitMs);
      pending.push(act());
    }
  };
  await Promise.all([
    loop(searchesPerSecond, () => {
      const query_vector = Array.from({ length: dimension }, () => random() * 2 - 1);
      const body = Buffer.from(JSON.stringify({ query_vector, top_k: 10 }));
      return ask("POST", `/vectordb/collections/${collection}/search/dense`, body, seen.searchMs);
    }),
    loop(readsPerSecond, () =>
      ask("GET", `/vectordb/collections/${collection}/vectors/v1`, undefined, seen.readMs),
    ),
    loop(healthPerSecond, () => ask("GET", "/health/live", undefined, seen.healthMs)),
  ]);
  await Promise.all(pending);
  agent.destroy();
  return seen;
}

function outcomeOf(
  attack: string,
  { searchMs, readMs, healthMs, statuses }: Seen,
  holds: Holds,
  report: AttackReport,
): Outcome {
  return {
    holds,
    attack,
    p50: quantile(searchMs, 0.5),
    p99: quantile(searchMs, 0.99),
    worst: Math.max(...searchMs),
    readP99: quantile(readMs, 0.99),
    healthWorst: Math.max(...healthMs),
    answered: statuses.get(200) ?? 0,
    refused: searchMs.length - (statuses.get(200) ?? 0),
    report,
  };
}

function lineOf({ attack, p50, p99, worst, readP99, healthWorst, holds, refused, report }: Outcome): string {
  const ms = (value: number) => value.toFixed(1).padStart(8);
  const statuses = Object.entries(report.statuses)
    .map(([status, count]) => `${status}: ${count}`)
    .join(", ");
  return `${attack.padEnd(40)} p50 ${ms(p50)} p99 ${ms(p99)} worst ${ms(worst)} read ${ms(readP99)} health ${ms(healthWorst)} held ${ms(holds.p99Ms)} ${ms(holds.worstMs)} refused ${refused}   {${statuses}} ${(report.bytes / 2 ** 20).toFixed(1)} MiB`;
}

/** Each bound that was exceeded. */
function missesOf([quiet, ...attacked]: readonly Outcome[]): string[] {
  return attacked.flatMap(({ attack, p99, readP99, refused, healthWorst }) => {
    const p99Max = attack.includes("bulk writes")
      ? bulkP99MsMax
      : Math.max(p99MsLeast, p99Factor * quiet.p99);
    return [
      ...(p99 > p99Max
        ? [`during "${attack}" p99 is ${p99.toFixed(1)} ms, more than ${p99Max.toFixed(1)}`]
        : []),
      ...(readP99 > p99Max ? [`during "${attack}" p99 of reads is ${readP99.toFixed(1)} ms`] : []),
      ...(refused > 0 ? [`during "${attack}" ${refused} searches were rejected`] : []),
      ...(healthWorst > healthMsMax
        ? [`during "${attack}" /health/live took ${healthWorst.toFixed(1)} ms`]
        : []),
    ];
  });
}

/** The quiet client, and the attacks with the greatest p99. */
function figuresOf([quiet, ...attacked]: readonly Outcome[]): Figures {
  const slowest = attacked.toSorted((a, b) => b.p99 - a.p99).slice(0, 10);
  return {
    attacks: attacked.length,
    ...Object.fromEntries(
      [quiet, ...slowest].map(({ attack, p50, p99, healthWorst, holds }) => [
        attack === "none" ? "quiet" : `beside ${attack}`,
        `${[p50, p99, healthWorst, holds.worstMs].map((ms) => ms.toFixed(1)).join(" / ")} ms`,
      ]),
    ),
  };
}

if (import.meta.main)
  await command({
    name: "fairness",
    options: { seconds: 15, only: "", judge: false, seed: 1 },
    isWhole: ({ only }) => only === "",
    run: async ({ seconds, only, judge }) => {
      const miss = (missed: string) => {
        if (!judge) return;
        say(`missed: ${missed}`);
        process.exitCode = 1;
      };
      const ofWords = () => words({ commits: 4, wordsPerCommit: 1_000_000 }, say, miss);
      if (only !== "" && "a million words".includes(only)) return ofWords();
      const outcomes = await fairness({ seconds, records: 20_000, only }, say, miss);
      return { ...figuresOf(outcomes), ...(only === "" && (await ofWords())) };
    },
  });
