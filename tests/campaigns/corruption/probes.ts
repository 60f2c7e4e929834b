// Are the responses of a server with damaged data correct, or clear errors?
//
// All requests are sent to an undamaged server first; its responses are the oracle. A response on damaged data is *right* if it is the
// same, and an *error* if it reports corrupted data. Anything else is wrong. Time-dependent parts of responses (progress of an index, its
// memory) are not compared. A search by the graph may find other records after the graph was rebuilt: its scores must be those of an exact
// search, and it must find half of the exact results.

import { createHash } from "node:crypto";
import type { Snapshot } from "@quiverdb/protocol/shapes/snapshot";
import type { ServerProcess } from "../server-process.ts";
import type { Random } from "./damage.ts";

/** One request, and the part of its response that must be the same. */
type Probe = {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly key: string;
  /** For a search by the graph: the score of every record, best first. */
  readonly scores?: ReadonlyMap<string, number>;
};

export type Answers = Map<string, string>;

export type Compared = {
  readonly right: number;
  /** Requests with a clear error as the response. */
  readonly errors: number;
  readonly wrong: readonly string[];
};

const errorMark = "error: ";

/** All requests about the collections that an undamaged server lists. */
export async function makeProbes(server: ServerProcess, random: Random): Promise<Probe[]> {
  const { collections } = JSON.parse(await ask(server, get("/vectordb/collections"))) as {
    collections: { name: string }[];
  };
  const probes: Probe[] = [get("/vectordb/collections")];
  for (const { name } of collections) probes.push(...(await probesOf(server, name, random)));
  const { snapshots } = JSON.parse(await ask(server, get(snapshotList))) as { snapshots: Snapshot[] };
  probes.push(get(snapshotList));
  for (const { id, collection_name } of snapshots) {
    const path = `/vectordb/collections/${encodeURIComponent(collection_name)}/snapshots/${id}`;
    probes.push(get(path), get(`${path}/download`));
  }
  return probes;
}

const snapshotList = "/vectordb/snapshots";

const searched = 12;
const scoredMax = 10_000;

/** Searches by the graph, with the scores that an exact search gives to every record. */
async function graphProbes(server: ServerProcess, c: string, queries: readonly unknown[]): Promise<Probe[]> {
  const probes: Probe[] = [];
  for (const query_vector of queries) {
    const all = await ask(server, post(`${c}/search/dense`, { query_vector, top_k: scoredMax, exact: true }));
    const scores = new Map(resultsOf(all).map(({ id, score }) => [id, score]));
    probes.push({ ...post(`${c}/search/dense`, { query_vector, top_k: searched }), scores });
  }
  return probes;
}

const resultsOf = (answer: string) =>
  (JSON.parse(answer) as { results: { id: string; score: number }[] }).results;

/** Whether a search by the graph has found enough, with right scores and in the right order. */
function isFound(answer: string, scores: ReadonlyMap<string, number>): boolean {
  const results = resultsOf(answer);
  const best = new Set([...scores.keys()].slice(0, searched));
  return (
    results.length === Math.min(searched, scores.size) &&
    new Set(results.map(({ id }) => id)).size === results.length &&
    results.every(
      ({ id, score }, i) => score === scores.get(id) && (i === 0 || score <= results[i - 1].score),
    ) &&
    results.filter(({ id }) => best.has(id)).length * 2 >= results.length
  );
}

async function probesOf(server: ServerProcess, name: string, random: Random): Promise<Probe[]> {
  const c = `/vectordb/collections/${encodeURIComponent(name)}`;
  const exported = get(`${c}/export`);
  const records = (await ask(server, exported))
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const some = <T>(count: number, of: (i: number) => T) => Array.from({ length: count }, (_, i) => of(i));
  const pick = (count: number) => Math.floor(random() * count);
  const documents = new Set(records.map((record) => record.document_id).filter((id) => id !== null));
  const dense = records.filter((record) => record.dense_values !== null);
  return [
    get(c),
    exported,
    get(`${c}/versions`),
    get(`${c}/versions/current`),
    get(`${c}/transactions`),
    get(`${c}/indexes`),
    ...some(60, () => get(`${c}/vectors/${records[pick(records.length)].id}`)),
    ...some(20, (i) => get(`${c}/vectors/absent-${i}`)),
    ...[...documents].map((id) => get(`${c}/vectors?document_id=${encodeURIComponent(String(id))}`)),
    ...some(dense.length === 0 ? 0 : 10, () =>
      post(`${c}/search/dense`, {
        query_vector: dense[pick(dense.length)].dense_values,
        top_k: searched,
        exact: true,
      }),
    ),
    ...(await graphProbes(
      server,
      c,
      some(dense.length === 0 ? 0 : 20, () => dense[pick(dense.length)].dense_values),
    )),
    ...some(10, () =>
      post(`${c}/search/sparse`, {
        query_terms: [
          { index: pick(50), value: 1 },
          { index: 50 + pick(50), value: 0.5 },
        ],
        top_k: searched,
      }),
    ),
    ...["quick fox", "seven wizards", "old stone bridges", "lazy dogs"].map((query_text) =>
      post(`${c}/search/tf-idf`, { query_text, top_k: searched }),
    ),
    post(`${c}/search/hybrid`, {
      query_terms: [{ index: pick(50), value: 1 }],
      query_text: "brown potions",
      top_k: searched,
    }),
  ];
}

const get = (path: string): Probe => ({ method: "GET", path, key: `GET ${path}` });
const post = (path: string, body: unknown): Probe => ({
  method: "POST",
  path,
  body,
  key: `POST ${path} ${JSON.stringify(body).slice(0, 200)}`,
});

/** The response as text to compare; an error about damaged data begins with `errorMark`. */
async function ask(server: ServerProcess, { method, path, body }: Probe): Promise<string> {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${server.adminKey}`,
      ...(body !== undefined && { "content-type": "application/json" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(60_000),
  });
  let text: string;
  try {
    text =
      path.endsWith("/download") && response.ok
        ? digest(await response.arrayBuffer())
        : await response.text();
  } catch (error) {
    // A response is cut off when damage is found while it is sent, so that it does not look complete.
    return `${errorMark}cut off (${(error as Error).message})`;
  }
  if (response.status >= 400) {
    const { code, message } = (JSON.parse(text) as { error: { code: string; message: string } }).error;
    if (code === "data_corrupted" || code === "storage_failed") return `${errorMark}${code}: ${message}`;
    return `${response.status} ${code}`;
  }
  return method === "GET" && !/\/(export|download)$/.test(path) ? steady(text) : text;
}

const digest = (bytes: ArrayBuffer) => createHash("sha256").update(new Uint8Array(bytes)).digest("hex");

const unsteadyKeys = new Set(["status", "loaded", "disk_bytes"]);

/**
 * A response without what depends on the moment: the progress of an index, whether a search has loaded the collection, and the blocks
 * that the file system has allotted so far (a file that was just written still gains some, and its copy has others).
 */
function steady(text: string): string {
  return JSON.stringify(JSON.parse(text), (key, value) => (unsteadyKeys.has(key) ? undefined : value));
}

export async function answersOf(server: ServerProcess, probes: readonly Probe[]): Promise<Answers> {
  const answers: Answers = new Map();
  for (let from = 0; from < probes.length; from += 8) {
    const part = probes.slice(from, from + 8);
    const texts = await Promise.all(part.map((probe) => ask(server, probe)));
    for (const [i, probe] of part.entries()) answers.set(probe.key, texts[i]);
  }
  return answers;
}

/** Compares with the oracle. */
export function compare(probes: readonly Probe[], oracle: Answers, answers: Answers): Compared {
  let right = 0;
  let errors = 0;
  const wrong: string[] = [];
  for (const { key, path, scores } of probes) {
    const [expected, answer] = [oracle.get(key) as string, answers.get(key) as string];
    if (answer === expected && scores === undefined) right++;
    else if (answer.startsWith(errorMark)) errors++;
    else if (scores !== undefined && isFound(answer, scores)) right++;
    else if (key === "GET /vectordb/collections" && isListWithDamage(expected, answer)) errors++;
    else if (path === snapshotList && isSnapshotListWithDamage(expected, answer)) errors++;
    else if (/\/snapshots\/[0-9a-f]+$/.test(path) && withoutDamage(answer) === expected) errors++;
    else wrong.push(`${key}\n    answers  ${answer.slice(0, 300)}\n    expected ${expected.slice(0, 300)}`);
  }
  return { right, errors, wrong };
}

/** The description of a damaged snapshot without the mark that says so. */
function withoutDamage(answer: string): string {
  if (!answer.startsWith("{")) return answer;
  const { damaged: _, ...told } = JSON.parse(answer) as Snapshot;
  return JSON.stringify(told);
}

/** The same list, in which some entries are marked as damaged. */
function isSnapshotListWithDamage(expected: string, answer: string): boolean {
  const listed = (text: string) => (JSON.parse(text) as { snapshots: Snapshot[] }).snapshots;
  const told = listed(answer).map((snapshot) => withoutDamage(JSON.stringify(snapshot)));
  return (
    JSON.stringify(told) === JSON.stringify(listed(expected).map((snapshot) => JSON.stringify(snapshot)))
  );
}

type List = { collections: { name: string; damaged?: boolean }[] };

/** The same list, in which some entries are marked as damaged, with readable names or without. */
function isListWithDamage(expected: string, answer: string): boolean {
  const [before, after] = [expected, answer].map((text) => (JSON.parse(text) as List).collections);
  const intact = after.filter(({ damaged }) => damaged !== true);
  return (
    after.length === before.length && intact.every(({ name }) => before.some((other) => other.name === name))
  );
}
