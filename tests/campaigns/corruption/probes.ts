// Is what a server answers on damaged data right, or a clear error?
//
// Everything is asked of an undamaged server first; its answers are the oracle. An answer on damaged data is *right* when it is the
// same, and an *error* when it says that data is corrupted. Anything else is wrong. Answers that depend on when they are asked (how
// far an index is, how much memory it takes) are compared without that.

import type { Random } from "./damage.ts";
import type { ServerProcess } from "./server-process.ts";

/** One question, and what of its answer must be the same. */
type Probe = {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly key: string;
};

export type Answers = Map<string, string>;

export type Compared = {
  readonly right: number;
  /** Questions answered by a clear error. */
  readonly errors: number;
  readonly wrong: readonly string[];
};

const errorMark = "error: ";

/** All questions about the collections that an undamaged server lists. */
export async function makeProbes(server: ServerProcess, random: Random): Promise<Probe[]> {
  const { collections } = JSON.parse(await ask(server, get("/vectordb/collections"))) as {
    collections: { name: string }[];
  };
  const probes: Probe[] = [get("/vectordb/collections")];
  for (const { name } of collections) probes.push(...(await probesOf(server, name, random)));
  return probes;
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
        top_k: 12,
        exact: true,
      }),
    ),
    ...some(10, () =>
      post(`${c}/search/sparse`, {
        query_terms: [
          { index: pick(50), value: 1 },
          { index: 50 + pick(50), value: 0.5 },
        ],
        top_k: 12,
      }),
    ),
    ...["quick fox", "seven wizards", "old stone bridges", "lazy dogs"].map((query_text) =>
      post(`${c}/search/tf-idf`, { query_text, top_k: 12 }),
    ),
    post(`${c}/search/hybrid`, {
      query_terms: [{ index: pick(50), value: 1 }],
      query_text: "brown potions",
      top_k: 12,
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

/** The answer as text to compare; an error of damaged data begins with `errorMark`. */
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
    text = await response.text();
  } catch (error) {
    // An answer that is under way when damage is met is cut off, so that nobody takes it for complete.
    return `${errorMark}cut off (${(error as Error).message})`;
  }
  if (response.status >= 400) {
    const { code, message } = (JSON.parse(text) as { error: { code: string; message: string } }).error;
    if (code === "data_corrupted" || code === "storage_failed") return `${errorMark}${code}: ${message}`;
    return `${response.status} ${code}`;
  }
  return method === "GET" && !path.includes("/export") ? steady(text) : text;
}

/** An answer without what depends on when it is asked: how far an index is, and whether a search has loaded the collection. */
function steady(text: string): string {
  return JSON.stringify(JSON.parse(text), (key, value) =>
    key === "status" || key === "loaded" ? undefined : value,
  );
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
export function compare(oracle: Answers, answers: Answers): Compared {
  let right = 0;
  let errors = 0;
  const wrong: string[] = [];
  for (const [key, expected] of oracle) {
    const answer = answers.get(key) as string;
    if (answer === expected) right++;
    else if (answer.startsWith(errorMark)) errors++;
    else if (key === "GET /vectordb/collections" && isListWithDamage(expected, answer)) errors++;
    else wrong.push(`${key}\n    answers  ${answer.slice(0, 300)}\n    expected ${expected.slice(0, 300)}`);
  }
  return { right, errors, wrong };
}

type List = { collections: { name: string; damaged?: boolean }[] };

/** The same list, of which some are marked as damaged, be their names readable or not. */
function isListWithDamage(expected: string, answer: string): boolean {
  const [before, after] = [expected, answer].map((text) => (JSON.parse(text) as List).collections);
  const intact = after.filter(({ damaged }) => damaged !== true);
  return (
    after.length === before.length && intact.every(({ name }) => before.some((other) => other.name === name))
  );
}
