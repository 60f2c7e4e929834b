// How does a server handle invalid and hostile requests?
//
// A real server in its own process gets, in rounds: requests to every endpoint that are valid, nearly valid or hostile (fuzz/requests);
// connections with malformed HTTP (fuzz/raw-http); and damaged files, through `quiver import` (fuzz/import-files). It must answer each in
// the shapes of the interface (fuzz/answers), without a 500, in time. After each round it must be alive, answer the canary's searches as
// before, and, after garbage collection, use no more memory and no more open files than some rounds ago.
//
//   node tools/launch.mjs run tests/campaigns/fuzz.ts --rounds 160 --seed 1 [--figures]
//
// To repeat a failure, run one round: round i of a run with seed s is the same as the only round of a run with seed s + i.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Route, type RouteName, routes } from "@quiver/protocol/routes";
import fc from "fast-check";
import type { Probe } from "./child-probe.ts";
import { adminKey, type ChildServer, startChildServer } from "./child-server.ts";
import { type Figures, writeFigures } from "./figures.ts";
import { faultOf, routeOf } from "./fuzz/answers.ts";
import { anyImportFile, importFault, importPrefix } from "./fuzz/import-files.ts";
import { type Attack, anyAttack, canaryName } from "./fuzz/raw-http.ts";
import {
  anyRequest,
  encodeRequest,
  type FuzzRequest,
  type Grounds,
  groundsIds,
  groundsName,
  lastKey,
  lastSnapshot,
  openTransaction,
} from "./fuzz/requests.ts";
import { Wire } from "./fuzz/wire.ts";

export type FuzzOptions = {
  readonly seed: number;
  readonly rounds: number;
  readonly requestsPerRound: number;
  readonly attacksPerRound: number;
  readonly importsPerRound: number;
  readonly say: (line: string) => void;
};

/** Time in which every request must be answered and every connection closed. The server's own timeouts are shorter. */
const answerMsMax = 60_000;
const connections = 48;
const attacksAtOnce = 96;

const serverFlags = [
  ["--request-timeout", "3s"],
  ["--headers-timeout", "1s"],
  ["--keep-alive-timeout", "2s"],
  ["--body-limit", "1MiB"],
].flat();

/** The server broke a promise. */
class Broken extends Error {
  override readonly name = "Broken";
}

/** Runs all rounds. @throws with the request, the attack or the file that broke a promise */
export async function fuzz(options: FuzzOptions): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), "quiver-fuzz-"));
  const dataDir = join(folder, "data");
  const server = await startChildServer(dataDir, serverFlags);
  const statuses = new Map<number, number>();
  const count = (status: number) => statuses.set(status, (statuses.get(status) ?? 0) + 1);
  const probes: Probe[] = [];
  const reached = new Set<string>();
  const sent = { requests: 0, attacks: 0, imports: 0 };
  const startedAt = performance.now();
  try {
    await makeCanary(server);
    for (let round = 0; round < options.rounds; round++) {
      const seed = options.seed + round;
      try {
        const grounds = await makeGrounds(server);
        const requests = fc.sample(anyRequest(grounds), { seed, numRuns: options.requestsPerRound });
        await sendAll(server, dataDir, requests, count, reached);
        const attacks = fc.sample(anyAttack, { seed, numRuns: options.attacksPerRound });
        const files = fc.sample(anyImportFile, { seed, numRuns: options.importsPerRound });
        const importing = importAll(server, files, folder);
        await Promise.all([
          inParallel(attacks, attacksAtOnce, (attack) => carryOut(server, dataDir, attack, count)),
          importing,
        ]);
        await checkImports(server, dataDir);
        await checkCanary(server);
        sent.requests += requests.length;
        sent.attacks += attacks.length;
        sent.imports += files.length;
        await deleteOthers(server);
        probes.push(await server.measure());
      } catch (error) {
        const died = server.exit() === undefined ? "" : `\nthe server has ended (${server.exit()})`;
        const output = server.output() === "" ? "" : `\nthe server wrote:\n${server.output()}`;
        const command = `--seed ${seed} --rounds 1 --requests ${options.requestsPerRound}`;
        throw new Broken(`round ${round + 1} (${command}): ${(error as Error).message}${died}${output}`, {
          cause: error,
        });
      }
      const { residentBytes, heapBytes, handles } = probes[round];
      options.say(
        `round ${round + 1}: ${sent.requests} requests, ${sent.attacks} attacks, ${sent.imports} imports; ${megabytes(residentBytes)} MB private, ${megabytes(heapBytes)} MB heap, ${handles} handles`,
      );
    }
    checkGrowth(probes);
    if (options.rounds * options.requestsPerRound >= reachRequestsMin) checkReach(reached);
    await server.stop();
    if (server.output().includes('"level":50'))
      throw new Broken(`the server logged a fault:\n${server.output()}`);
    return figures(options, sent, statuses, reached, probes, performance.now() - startedAt);
  } finally {
    if (server.exit() === undefined) await server.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

// --- What is there before the requests ------------------------------------------------------------------------------

type Asked = { readonly status: number; readonly text: string };

async function ask(server: ChildServer, method: string, path: string, body?: unknown): Promise<Asked> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${adminKey}`, "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(answerMsMax),
  });
  return { status: response.status, text: await response.text() };
}

/** @throws unless it succeeds */
async function must(server: ChildServer, method: string, path: string, body?: unknown): Promise<string> {
  const { status, text } = await ask(server, method, path, body);
  if (status < 200 || status > 299) throw new Broken(`${method} ${path} is answered ${status}: ${text}`);
  return text;
}

const pathOf = (name: string) => `/vectordb/collections/${encodeURIComponent(name)}`;

async function makeCollection(server: ChildServer, name: string, withIndexes: boolean): Promise<void> {
  await must(server, "POST", "/vectordb/collections", {
    name,
    dense_vector: { enabled: true, dimension: 3 },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    config: {},
    store_raw_text: true,
  });
  if (!withIndexes) return;
  await must(server, "POST", `${pathOf(name)}/indexes/dense`, {
    name: "d",
    distance_metric_type: "dot_product",
    quantization: { type: "auto", properties: { sample_threshold: 10 } },
    index: { type: "hnsw", properties: {} },
  });
  await must(server, "POST", `${pathOf(name)}/indexes/sparse`, {
    name: "s",
    quantization: 64,
    sample_threshold: 10,
  });
  await must(server, "POST", `${pathOf(name)}/indexes/tf-idf`, {
    name: "t",
    sample_threshold: 10,
    k1: 1.2,
    b: 0.75,
    positions: true,
  });
}

/** The canary's results, which must not change. */
const canarySong: readonly (readonly [path: string, body: unknown])[] = [
  ["search/dense", { query_vector: [1, 2, 3], top_k: 5 }],
  ["search/sparse", { query_terms: [[1, 1]], top_k: 5 }],
  ["search/tf-idf", { query: '"bees dance"', syntax: "operators", top_k: 5, return_raw_text: true }],
  ["search/hybrid", { query_vector: [1, 2, 3], query_text: "dance", top_k: 5 }],
];
let expectedSong: string[] = [];

async function sing(server: ChildServer): Promise<string[]> {
  const answers: string[] = [];
  for (const [path, body] of canarySong)
    answers.push(await must(server, "POST", `${pathOf(canaryName)}/${path}`, body));
  answers.push(await must(server, "GET", `${pathOf(canaryName)}/export`));
  answers.push(await must(server, "GET", `${pathOf(canaryName)}/versions/current`));
  return answers;
}

async function makeCanary(server: ChildServer): Promise<void> {
  await makeCollection(server, canaryName, true);
  const vectors = Array.from({ length: 40 }, (_, i) => ({
    id: `c${i}`,
    dense_values: [i, 1, 40 - i],
    sparse_values: [[i % 4, i + 1]],
    text: i % 3 === 0 ? "bees dance" : `a dance of ${i} bees`,
  }));
  await must(server, "POST", `${pathOf(canaryName)}/streaming/upsert`, { vectors });
  expectedSong = await sing(server);
}

async function checkCanary(server: ChildServer): Promise<void> {
  const song = await sing(server);
  for (const [i, answer] of song.entries()) {
    if (answer !== expectedSong[i])
      throw new Broken(`the canary's result is ${answer}, before it was ${expectedSong[i]}`);
  }
}

async function deleteOthers(server: ChildServer): Promise<void> {
  const { collections } = JSON.parse(await must(server, "GET", "/vectordb/collections")) as {
    collections: { name: string }[];
  };
  for (const { name } of collections) if (name !== canaryName) await must(server, "DELETE", pathOf(name));
  const { snapshots } = JSON.parse(await must(server, "GET", "/vectordb/snapshots")) as {
    snapshots: { collection_name: string; id: string }[];
  };
  for (const { collection_name, id } of snapshots)
    await must(server, "DELETE", `${pathOf(collection_name)}/snapshots/${encodeURIComponent(id)}`);
  const { keys } = JSON.parse(await must(server, "GET", "/auth/keys")) as { keys: { key_id: string }[] };
  for (const { key_id } of keys) await must(server, "DELETE", `/auth/keys/${encodeURIComponent(key_id)}`);
}

async function makeGrounds(server: ChildServer): Promise<Grounds> {
  await deleteOthers(server);
  await makeCollection(server, groundsName, true);
  await makeCollection(server, "plain", false);
  await makeCollection(server, "victim", false);
  const vectors = groundsIds.map((id, i) => ({
    id,
    document_id: "d1",
    dense_values: [i, 1, 2],
    sparse_values: [[i, 1]],
    text: "honey bees dance",
  }));
  await must(server, "POST", `${pathOf(groundsName)}/streaming/upsert`, { vectors });
  const { hash } = JSON.parse(await must(server, "GET", `${pathOf(groundsName)}/versions/current`));
  return { versionHash: hash };
}

// --- Requests -------------------------------------------------------------------------------------------------------

async function sendAll(
  server: ChildServer,
  dataDir: string,
  requests: readonly FuzzRequest[],
  count: (status: number) => void,
  reached: Set<string>,
): Promise<void> {
  const wires = new Map<number, Wire>();
  /** The current values of the placeholders. */
  const made = new Map(
    [openTransaction, lastSnapshot, lastKey].map((placeholder) => [placeholder, placeholder]),
  );
  const filledIn = (text: string) =>
    [...made].reduce((filled, [placeholder, value]) => filled.replaceAll(placeholder, () => value), text);
  try {
    await inParallel(requests, connections, async (request, lane) => {
      let wire = wires.get(lane);
      if (wire === undefined || wire.isClosed) {
        wire = await Wire.open(server.port);
        wires.set(lane, wire);
      }
      const { method } = request;
      const target = filledIn(request.target);
      // Latin-1 represents every byte, because bodies need not be UTF-8.
      const body = request.body && Buffer.from(filledIn(request.body.toString("latin1")), "latin1");
      const bytes = encodeRequest({ ...request, target, body });
      const fail = (what: string): never => {
        throw new Broken(`${what}\nrequest: ${shown(bytes)}`);
      };
      wire.send(bytes);
      let answer = await wire.read(answerMsMax, method === "HEAD").catch((error) => fail(error.message));
      if (answer === "timeout") return fail(`no answer within ${answerMsMax} ms`);
      if (answer === "closed") {
        // The server may have closed an idle connection at this very moment, so the request is sent again.
        wire = await Wire.open(server.port);
        wires.set(lane, wire);
        wire.send(bytes);
        answer = await wire.read(answerMsMax, method === "HEAD").catch((error) => fail(error.message));
        if (answer === "closed" || answer === "timeout") return fail(`no answer, twice: ${answer}`);
      }
      count(answer.status);
      // The response to malformed HTTP does not depend on the requested endpoint.
      const isRefused = answer.status === 431 || answer.body.includes("not valid HTTP/1.1");
      const fault =
        isRefused && method !== "HEAD" ? faultOf(answer, dataDir) : faultOf(answer, dataDir, method, target);
      if (fault !== undefined) fail(`${fault}\nanswer: ${answer.status} ${shown(answer.body)}`);
      const route = routeOf(method, target);
      if (answer.status < 300) remember(answer.body, route, target, made);
      if (answer.status < 300 && route !== undefined && route.method === method)
        reached.add(`${route.method} ${route.path}`);
      // A malformed request gets a response with a body even if it was a HEAD, and the connection is closed.
      if (answer.headers.get("connection") === "close" || isRefused) wire.close();
      else if (wire.leftover.length > 0) fail(`bytes after the response: ${shown(wire.leftover)}`);
    });
  } finally {
    for (const wire of wires.values()) wire.close();
  }
}

/** Extracts the id of a created object from a response. */
function remember(body: Buffer, route: Route | undefined, target: string, made: Map<string, string>): void {
  const told = () => JSON.parse(body.toString("utf8"));
  if (route === routes.createKey) made.set(lastKey, told().key_id);
  if (!target.startsWith(pathOf(groundsName))) return;
  if (route === routes.createTransaction) made.set(openTransaction, told().transaction_id);
  if (route === routes.createSnapshot) made.set(lastSnapshot, told().id);
}

/** With this many requests even the rarest success is certain: a valid delete in an open transaction. */
const reachRequestsMin = 200_000;

/** Every endpoint must have succeeded at least once: otherwise the fuzzer tests the first check only. */
function checkReach(reached: ReadonlySet<string>): void {
  // These two need the admin key as a password and a complete snapshot file, which fuzzed requests never have.
  const unreachable: readonly RouteName[] = ["createSession", "uploadSnapshot"];
  const names = (Object.keys(routes) as RouteName[]).filter((name) => !unreachable.includes(name));
  const missed = names.filter((name) => !reached.has(`${routes[name].method} ${routes[name].path}`));
  if (missed.length > 0)
    throw new Broken(`no request to ${missed.join(", ")} succeeded: the fuzzer's hints are out of date`);
}

// --- Connections ----------------------------------------------------------------------------------------------------

async function carryOut(
  server: ChildServer,
  dataDir: string,
  attack: Attack,
  count: (status: number) => void,
): Promise<void> {
  const { kind, parts, pauseMs, finishes } = attack;
  const wire = await Wire.open(server.port);
  const fail = (what: string) =>
    new Broken(`attack "${kind}": ${what}\nsent: ${shown(Buffer.from(parts.join(""), "latin1"))}`);
  try {
    const writing = (async () => {
      for (const part of parts) {
        if (wire.isClosed) return;
        wire.send(Buffer.from(part, "latin1"));
        if (pauseMs > 0) await sleep(pauseMs);
      }
      if (finishes) wire.finish();
    })();
    for (let answers = 0; ; answers++) {
      // Only the response to the first request, if it is a HEAD, has a length without a body.
      const toHead =
        kind === "pipelined" && parts[0].split(/(?=GET |HEAD |POST )/)[answers]?.startsWith("HEAD ");
      const answer = await wire.read(answerMsMax, toHead).catch((error) => {
        throw fail(error.message);
      });
      if (answer === "closed") break;
      if (answer === "timeout") throw fail(`the connection is open after ${answerMsMax} ms`);
      count(answer.status);
      const fault = faultOf(answer, dataDir);
      if (fault !== undefined && !(toHead && fault.startsWith("an error")))
        throw fail(`${fault}\nanswer: ${answer.status} ${shown(answer.body)}`);
      if (answers > parts.join("").length / 16) throw fail(`${answers} answers`);
    }
    await writing;
  } finally {
    wire.close();
  }
}

// --- Imports --------------------------------------------------------------------------------------------------------

async function importAll(
  server: ChildServer,
  files: readonly { name: string; content: Buffer; flags: readonly string[] }[],
  folder: string,
): Promise<void> {
  for (const [i, file] of files.entries()) {
    const fault = await importFault(file, server.url, `${importPrefix}${i}`, folder, answerMsMax);
    if (fault !== undefined) {
      throw new Broken(
        `${fault}\nfile: ${file.name} ${file.flags.join(" ")}, ${file.content.length} bytes: ${file.content.subarray(0, 3_000).toString("base64")}`,
      );
    }
  }
}

/** All imported records can be read back. */
async function checkImports(server: ChildServer, dataDir: string): Promise<void> {
  const { collections } = JSON.parse(await must(server, "GET", "/vectordb/collections")) as {
    collections: { name: string }[];
  };
  for (const { name } of collections.filter((collection) => collection.name.startsWith(importPrefix))) {
    const wire = await Wire.open(server.port);
    const target = `${pathOf(name)}/export`;
    wire.send(
      encodeRequest({
        method: "GET",
        target,
        headers: [["Authorization", `Bearer ${adminKey}`]],
        body: undefined,
      }),
    );
    const answer = await wire.read(answerMsMax);
    wire.close();
    const fault = typeof answer === "string" ? answer : faultOf(answer, dataDir, "GET", target);
    if (fault !== undefined) throw new Broken(`the export of what was imported: ${fault}`);
  }
}

// --- Memory ---------------------------------------------------------------------------------------------------------

/** Memory grows in the first rounds: compiled code, pools, the largest index so far. */
const warmUpShare = 0.3;
/** Growth over a whole run up to which it counts as allocator noise rather than a leak. */
const growthBytesMax = { residentBytes: 64 * 1024 ** 2, heapBytes: 12 * 1024 ** 2 };
const growthHandlesMax = 8;

/** Growth over all rounds after the warm-up, by the median of all slopes between two rounds (Theil-Sen). */
function growthOf(values: readonly number[]): number {
  const slopes: number[] = [];
  for (let i = 0; i < values.length; i++)
    for (let j = i + 1; j < values.length; j++) slopes.push((values[j] - values[i]) / (j - i));
  slopes.sort((a, b) => a - b);
  return (slopes[Math.floor(slopes.length / 2)] ?? 0) * (values.length - 1);
}

const settled = (probes: readonly Probe[]) => probes.slice(Math.floor(probes.length * warmUpShare));

function checkGrowth(probes: readonly Probe[]): void {
  if (probes.length < 8) return;
  for (const what of ["residentBytes", "heapBytes"] as const) {
    const growth = growthOf(settled(probes).map((probe) => probe[what]));
    if (growth > growthBytesMax[what]) throw new Broken(`${what} grew by ${megabytes(growth)} MB`);
  }
  const handles = growthOf(settled(probes).map((probe) => probe.handles));
  if (handles > growthHandlesMax) throw new Broken(`the open files grew by ${handles}`);
}

const megabytes = (bytes: number) => (bytes / 1024 ** 2).toFixed(1);

// --- Helpers of the campaign ----------------------------------------------------------------------------------------

/** Processes all items with limited concurrency. The first failure stops it. */
async function inParallel<T>(
  items: readonly T[],
  lanes: number,
  act: (item: T, lane: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  let failed = false;
  await Promise.all(
    Array.from({ length: lanes }, async (_, lane) => {
      while (next < items.length && !failed) {
        try {
          await act(items[next++], lane);
        } catch (error) {
          failed = true;
          throw error;
        }
      }
    }),
  );
}

function shown(bytes: Buffer): string {
  const text = JSON.stringify(bytes.subarray(0, 4_000).toString("latin1"));
  return bytes.length > 4_000 ? `${text} and ${bytes.length - 4_000} bytes more` : text;
}

function figures(
  options: FuzzOptions,
  sent: { requests: number; attacks: number; imports: number },
  statuses: ReadonlyMap<number, number>,
  reached: ReadonlySet<string>,
  probes: readonly Probe[],
  ms: number,
): Figures {
  const byClass = (least: number, most: number) =>
    [...statuses].filter(([status]) => status >= least && status <= most).reduce((sum, [, n]) => sum + n, 0);
  const growth = (what: "residentBytes" | "heapBytes") =>
    `${megabytes(growthOf(settled(probes).map((probe) => probe[what])))} MB`;
  return {
    "requests to endpoints": sent.requests,
    "raw connections": sent.attacks,
    "damaged files imported": sent.imports,
    "rounds, each with its seed": options.rounds,
    "endpoints that also succeeded": `${reached.size} of ${Object.keys(routes).length} (not create-session and the upload of snapshots)`,
    "answers 2xx": byClass(200, 299),
    "answers 4xx": byClass(400, 499),
    "answers 500": statuses.get(500) ?? 0,
    "answers 503 and 507": byClass(501, 599),
    "requests without an answer, connections left open": 0,
    crashes: 0,
    "canaries that sang otherwise": 0,
    "private memory, growth behind the first 30 %": growth("residentBytes"),
    "heap, growth behind the first 30 %": growth("heapBytes"),
    minutes: Math.round(ms / 6_000) / 10,
  };
}

async function command(): Promise<void> {
  const { values } = parseArgs({
    options: {
      seed: { type: "string", default: String(Date.now() % 1_000_000) },
      rounds: { type: "string", default: "20" },
      requests: { type: "string", default: "2000" },
      attacks: { type: "string", default: "60" },
      imports: { type: "string", default: "2" },
      figures: { type: "boolean", default: false },
    },
  });
  const seed = Number(values.seed);
  process.stdout.write(`seed ${seed}\n`);
  const seen = await fuzz({
    seed,
    rounds: Number(values.rounds),
    requestsPerRound: Number(values.requests),
    attacksPerRound: Number(values.attacks),
    importsPerRound: Number(values.imports),
    say: (line) => process.stdout.write(`${line}\n`),
  });
  process.stdout.write(`${JSON.stringify(seen, null, 2)}\n`);
  if (values.figures)
    writeFigures(
      "fuzz",
      `npm run test:fuzz -- --seed ${seed} --rounds ${values.rounds} --requests ${values.requests}`,
      seen,
    );
}

if (import.meta.main) await command();
