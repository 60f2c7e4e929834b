// How does a server handle invalid and hostile requests?
//
// A real server in its own process gets, in rounds: requests to every endpoint that are valid, nearly valid or hostile (fuzz/requests);
// connections with malformed HTTP (fuzz/raw-http); and damaged files, through `quiver import` (fuzz/import-files). It must answer each in
// the shapes of the interface (fuzz/answers), without a 500, in time. After each round it must be alive, answer the canary's searches as
// before, and, after garbage collection, use no more memory and no more open files than some rounds ago.
//
//   node tools/launch.mjs run tests/campaigns/fuzz.ts --rounds 160
//
// To repeat a failure, run one round: round i of a run with seed s is the same as the only round of a run with seed s + i.

import { setTimeout as sleep } from "node:timers/promises";
import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import fc from "fast-check";
import { command, inLanes, type Say, say, TemporaryFolder } from "./campaign.ts";
import type { Probe } from "./child-probe.ts";
import type { Figures } from "./figures.ts";
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
import { adminKey, type ServerProcess, startPatientServer } from "./server-process.ts";

export type FuzzOptions = {
  readonly seed: number;
  readonly rounds: number;
  readonly requestsPerRound: number;
  readonly attacksPerRound: number;
  readonly importsPerRound: number;
  readonly say: Say;
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
  using folder = new TemporaryFolder("fuzz");
  const dataDir = folder.join("data");
  await using server = await startPatientServer(dataDir, serverFlags);
  const statuses = new Map<number, number>();
  const count = (status: number) => statuses.set(status, (statuses.get(status) ?? 0) + 1);
  const probes: Probe[] = [];
  const reached = new Set<string>();
  const sent = { requests: 0, attacks: 0, imports: 0 };
  const startedAt = performance.now();
  await makeCanary(server);
  for (let round = 0; round < options.rounds; round++) {
    const seed = options.seed + round;
    try {
      const grounds = await makeGrounds(server);
      const requests = fc.sample(anyRequest(grounds), { seed, numRuns: options.requestsPerRound });
      await sendAll(server, dataDir, requests, count, reached);
      const attacks = fc.sample(anyAttack, { seed, numRuns: options.attacksPerRound });
      const files = fc.sample(anyImportFile, { seed, numRuns: options.importsPerRound });
      const importing = importAll(server, files, folder.path);
      await Promise.all([
        inLanes(attacks, attacksAtOnce, (attack) => carryOut(server, dataDir, attack, count)),
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
      const died = server.hasEnded() ? `\nthe server has ended (${server.ending()})` : "";
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
}

// --- What is there before the requests ------------------------------------------------------------------------------

const pathOf = (name: string) => `/vectordb/collections/${encodeURIComponent(name)}`;

async function makeCollection(server: ServerProcess, name: string, withIndexes: boolean): Promise<void> {
  await server.must("POST", "/vectordb/collections", {
    name,
    dense_vector: { enabled: true, dimension: 3 },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    config: {},
    store_raw_text: true,
  });
  if (!withIndexes) return;
  await server.must("POST", `${pathOf(name)}/indexes/dense`, {
    name: "d",
    distance_metric_type: "dot_product",
    quantization: { type: "auto", properties: { sample_threshold: 10 } },
    index: { type: "hnsw", properties: {} },
  });
  await server.must("POST", `${pathOf(name)}/indexes/sparse`, {
    name: "s",
    quantization: 64,
    sample_threshold: 10,
  });
  await server.must("POST", `${pathOf(name)}/indexes/tf-idf`, {
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

async function sing(server: ServerProcess): Promise<string[]> {
  const answers: string[] = [];
  for (const [path, body] of canarySong)
    answers.push(await server.must("POST", `${pathOf(canaryName)}/${path}`, body));
  answers.push(await server.must("GET", `${pathOf(canaryName)}/export`));
  answers.push(await server.must("GET", `${pathOf(canaryName)}/versions/current`));
  return answers;
}

async function makeCanary(server: ServerProcess): Promise<void> {
  await makeCollection(server, canaryName, true);
  const vectors = Array.from({ length: 40 }, (_, i) => ({
    id: `c${i}`,
    dense_values: [i, 1, 40 - i],
    sparse_values: [[i % 4, i + 1]],
    text: i % 3 === 0 ? "bees dance" : `a dance of ${i} bees`,
  }));
  await server.must("POST", `${pathOf(canaryName)}/streaming/upsert`, { vectors });
  expectedSong = await sing(server);
}

async function checkCanary(server: ServerProcess): Promise<void> {
  const song = await sing(server);
  for (const [i, answer] of song.entries()) {
    if (answer !== expectedSong[i])
      throw new Broken(`the canary's result is ${answer}, before it was ${expectedSong[i]}`);
  }
}

async function deleteOthers(server: ServerProcess): Promise<void> {
  const { collections } = JSON.parse(await server.must("GET", "/vectordb/collections")) as {
    collections: { name: string }[];
  };
  for (const { name } of collections) if (name !== canaryName) await server.must("DELETE", pathOf(name));
  const { snapshots } = JSON.parse(await server.must("GET", "/vectordb/snapshots")) as {
    snapshots: { collection_name: string; id: string }[];
  };
  for (const { collection_name, id } of snapshots)
    await server.must("DELETE", `${pathOf(collection_name)}/snapshots/${encodeURIComponent(id)}`);
  const { keys } = JSON.parse(await server.must("GET", "/auth/keys")) as { keys: { key_id: string }[] };
  for (const { key_id } of keys) await server.must("DELETE", `/auth/keys/${encodeURIComponent(key_id)}`);
}

async function makeGrounds(server: ServerProcess): Promise<Grounds> {
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
  await server.must("POST", `${pathOf(groundsName)}/streaming/upsert`, { vectors });
  const { hash } = JSON.parse(await server.must("GET", `${pathOf(groundsName)}/versions/current`));
  return { versionHash: hash };
}

// --- Requests -------------------------------------------------------------------------------------------------------

async function sendAll(
  server: ServerProcess,
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
    await inLanes(requests, connections, async (request, lane) => {
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
        isRefused && method !== "HEAD"
          ? faultOf(answer, dataDir)
          : faultOf(answer, dataDir, method, target, body);
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
function remember(
  body: Buffer,
  route: Operation | undefined,
  target: string,
  made: Map<string, string>,
): void {
  const told = () => JSON.parse(body.toString("utf8"));
  if (route === operations.createKey) made.set(lastKey, told().key_id);
  if (!target.startsWith(pathOf(groundsName))) return;
  if (route === operations.createTransaction) made.set(openTransaction, told().transaction_id);
  if (route === operations.createSnapshot) made.set(lastSnapshot, told().id);
}

/** With this many requests even the rarest success is certain: a valid delete in an open transaction. */
const reachRequestsMin = 200_000;

/** Every endpoint must have succeeded at least once: otherwise the fuzzer tests the first check only. */
function checkReach(reached: ReadonlySet<string>): void {
  // These two need the admin key as a password and a complete snapshot file, which fuzzed requests never have.
  const unreachable: readonly OperationName[] = ["createSession", "uploadSnapshot"];
  const names = (Object.keys(operations) as OperationName[]).filter((name) => !unreachable.includes(name));
  const missed = names.filter((name) => !reached.has(`${operations[name].method} ${operations[name].path}`));
  if (missed.length > 0)
    throw new Broken(`no request to ${missed.join(", ")} succeeded: the fuzzer's hints are out of date`);
}

// --- Connections ----------------------------------------------------------------------------------------------------

async function carryOut(
  server: ServerProcess,
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
  server: ServerProcess,
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
async function checkImports(server: ServerProcess, dataDir: string): Promise<void> {
  const { collections } = JSON.parse(await server.must("GET", "/vectordb/collections")) as {
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
  const grouped = (count: number) => count.toLocaleString("en-US");
  return {
    "requests to endpoints": sent.requests,
    "raw connections": sent.attacks,
    "damaged files imported": sent.imports,
    rounds: options.rounds,
    "endpoints that also succeeded": `${reached.size} of ${Object.keys(operations).length} (not create-session and the upload of snapshots)`,
    "answers 2xx, 4xx, 503 and 507": [byClass(200, 299), byClass(400, 499), byClass(501, 599)]
      .map(grouped)
      .join("; "),
    "answers 500": statuses.get(500) ?? 0,
    "crashes, requests without an answer, connections left open": 0,
    "changes of the collection that nothing may change": 0,
    "growth of private memory, of the heap, after the first 30 %": `${growth("residentBytes")}, ${growth("heapBytes")}`,
    minutes: Math.round(ms / 6_000) / 10,
  };
}

if (import.meta.main)
  await command({
    name: "fuzz",
    options: { rounds: 20, requests: 2_000, attacks: 60, imports: 2 },
    run: ({ seed, rounds, requests, attacks, imports }) =>
      fuzz({
        seed,
        rounds,
        requestsPerRound: requests,
        attacksPerRound: attacks,
        importsPerRound: imports,
        say,
      }),
    isWhole: ({ rounds, requests }) => rounds * requests >= reachRequestsMin,
  });
