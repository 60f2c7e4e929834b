// What could the holder of one key send to block the server for all others?
//
// Two sorts: named attacks that once succeeded; and attacks that are generated from the protocol, one for each endpoint that a reader or a
// writer may call, with everything in the body at its limit. New endpoints and fields are attacked without a change here.

import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import { randomNumbers } from "@quiverdb/kernels/random";
import { limits } from "@quiverdb/protocol/limits";

/** The contents of the attacked server, see data.ts. */
export const collection = "shared";
export const dimension = 128;
const sparseDimensions = 5_000;

/** A collection of the same server that is only written to. */
export const bulk = "bulk";
export const bulkDimension = 768;
const bulkRecords = 500;

/** A word of the vocabulary that all texts consist of. */
function wordOf(number: number): string {
  const syllables = [
    "ba",
    "ne",
    "ri",
    "to",
    "mu",
    "ka",
    "le",
    "si",
    "do",
    "vu",
    "pa",
    "ge",
    "xi",
    "zo",
    "fu",
    "wy",
  ];
  let word = "";
  for (let rest = number + 16; rest > 0; rest = Math.floor(rest / 16)) word += syllables[rest % 16];
  return word;
}

/** Words of the vocabulary. */
const vocabulary = 30_000;

export type AttackRequest = {
  readonly method: string;
  readonly path: string;
  readonly body?: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
};

export type Attack = {
  readonly name: string;
  readonly connections: number;
  /** Role that the attack needs. */
  readonly role: "read" | "write";
  /** The next request; a few bodies are generated once and reused. */
  next(): AttackRequest;
};

const c = `/vectordb/collections/${collection}`;
const patient = { "x-quiver-timeout-ms": String(limits.requestDeadlineMsMax) };

const vectorOf = (random: () => number) =>
  Array.from({ length: dimension }, () => Math.round((random() * 2 - 1) * 1e4) / 1e4);

const bytesOf = (value: unknown) => Buffer.from(JSON.stringify(value));

function post(path: string, bodies: readonly Buffer[]): () => AttackRequest {
  let turn = 0;
  return () => ({
    method: "POST",
    path: `${c}${path}`,
    body: bodies[turn++ % bodies.length],
    headers: patient,
  });
}

/** Requests that each add records to the collection for bulk writes. */
function bulkWrites(random: () => number): () => AttackRequest {
  const vectors = Array.from({ length: bulkRecords }, () => {
    const values = Array.from({ length: bulkDimension }, () => Math.round((random() * 2 - 1) * 1e4) / 1e4);
    return `,"dense_values":[${values}]}`;
  });
  let written = 0;
  return () => ({
    method: "POST",
    path: operations.streamingUpsert.path.replace("{collection_id}", bulk),
    body: Buffer.from(`{"vectors":[${vectors.map((vector) => `{"id":"b${written++}"${vector}`)}]}`),
    headers: patient,
  });
}

/** Attacks that once blocked a server, with the number of connections that they used. */
export function namedAttacks(): Attack[] {
  const random = randomNumbers(7);
  const word = () => wordOf(Math.floor(random() * vocabulary));
  const bodies = (count: number, make: () => unknown) => Array.from({ length: count }, () => bytesOf(make()));
  const exported = (): AttackRequest => ({
    method: "GET",
    path: operations.exportVectors.path.replace("{collection_id}", collection),
  });
  const prefixBatch = post(
    "/search/batch-tf-idf",
    bodies(4, () => ({
      queries: Array.from({ length: 1_000 }, () => `${word().slice(0, 2)}*`),
      syntax: "operators",
      top_k: 10,
    })),
  );
  const fuzzy = post(
    "/search/tf-idf",
    bodies(8, () => ({
      query: Array.from({ length: limits.queryExpandingMax }, () => `${word()}~2`).join(" "),
      syntax: "operators",
      top_k: limits.topKMax,
    })),
  );
  // Requests to paths outside the protocol.
  const pages = ["/metrics", "/openapi.json", "/docs", "/health/ready", "/nothing"];
  let turn = 0;
  const deep = (exact: boolean) =>
    post(
      "/search/dense",
      bodies(8, () => ({ query_vector: vectorOf(random), top_k: limits.topKMax, exact })),
    );
  const attack = (name: string, connections: number, next: () => AttackRequest): Attack => ({
    name,
    connections,
    role: "read",
    next,
  });
  return [
    ...[1, 4, 16].map((connections) => attack(`${connections} exports`, connections, exported)),
    attack("16 batches of 1,000 prefixes, patient", 16, prefixBatch),
    attack("8 of fuzzy words, top_k 10,000", 8, fuzzy),
    attack("8 of top_k 10,000", 8, deep(false)),
    attack("8 of top_k 10,000, exact", 8, deep(true)),
    attack("16 of top_k 10,000", 16, deep(false)),
    attack("64 of top_k 10,000", 64, deep(false)),
    attack("64 of pages", 64, () => ({ method: "GET", path: pages[turn++ % pages.length] })),
    { ...attack("8 of bulk writes, 500 x 768", 8, bulkWrites(random)), role: "write" },
  ];
}

/** Endpoints that are not attacked in a loop, because they delete what the other attacks need. */
const spared: ReadonlySet<OperationName> = new Set<OperationName>([
  "createSession",
  "deleteIndex",
  "unloadCollection",
]);

/** The parts of a JSON schema that determine a value at its limit. */
type Schema = {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly maxItems?: number;
  readonly maximum?: number;
};

/** Approximate bytes of a body, and how many bodies each attack alternates. */
const bodyBytes = 4 * 2 ** 20;
const bodiesEach = 2;

/** An attack for each endpoint of the role, with 64 connections. */
export function generatedAttacks(role: "read" | "write", seed = 1): Attack[] {
  const attacks: Attack[] = [];
  for (const [name, route] of Object.entries(operations) as [OperationName, Operation][]) {
    if (route.role !== role || spared.has(name) || route.upload) continue;
    for (const [label, make] of variantsOf(name, route, randomNumbers(seed)))
      attacks.push({ name: label, connections: 64, role, next: make });
  }
  return attacks;
}

function variantsOf(
  name: OperationName,
  route: Operation,
  random: () => number,
): [name: string, next: () => AttackRequest][] {
  const path = () => pathOf(route, random);
  if (route.body === undefined) return [[name, () => ({ method: route.method, path: path() })]];
  const bodies = Array.from({ length: bodiesEach }, () => bodyOf(name, route.body as Schema, random));
  let turn = 0;
  return [
    [
      name,
      () => ({
        method: route.method,
        path: path(),
        body: bodies[turn++ % bodies.length],
        headers: patient,
      }),
    ],
  ];
}

function pathOf({ path, query }: Operation, random: () => number): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, parameter: string) => {
    if (parameter === "collection_id") return collection;
    if (parameter === "vector_id") return `v${Math.floor(random() * 20_000)}`;
    return "none";
  });
  const parameters: Record<string, string> = {
    document_id: "all",
    limit: String(limits.versionsPageMax),
    sample: String(limits.recallSampleMax),
    top_k: String(limits.topKMax),
    ef_search: "4096",
  };
  const pairs = Object.keys(query ?? {})
    .filter((each) => each in parameters)
    .map((each) => `${each}=${parameters[each]}`);
  return pairs.length === 0 ? filled : `${filled}?${pairs.join("&")}`;
}

/** A body with everything at its limit, truncated at the target size. */
function bodyOf(name: OperationName, schema: Schema, random: () => number): Buffer {
  const value = shapedOf(schema, "", random, { left: bodyBytes }) as Record<string, unknown>;
  if (name.startsWith("search")) {
    const batch = Object.values(value).find((each) => Array.isArray(each) && each.length > 1_000);
    const queries = name.startsWith("searchBatch") ? ((batch as unknown[] | undefined)?.length ?? 1) : 1;
    value.top_k = Math.max(1, Math.min(limits.topKMax, Math.floor(limits.resultsPerRequestMax / queries)));
    value.explain = false;
    delete value.ef_search;
    delete value.recall_target;
  }
  if (name === "createKey" || name === "createCollection") value.name = `made-${Math.floor(random() * 1e9)}`;
  return bytesOf(value);
}

type Room = { left: number };

function shapedOf(schema: Schema, key: string, random: () => number, room: Room): unknown {
  const hinted = hintOf(key, random, room);
  if (hinted !== undefined) return hinted;
  if (schema.enum) return schema.enum.at(-1) ?? schema.enum[0];
  if (schema.anyOf) return shapedOf(schema.anyOf[0], key, random, room);
  const type = typeof schema.type === "string" ? schema.type : schema.type?.find((each) => each !== "null");
  switch (type) {
    case "object":
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, inner]) => [
          name,
          shapedOf(inner, name, random, room),
        ]),
      );
    case "array": {
      const items: unknown[] = [];
      while (room.left > 0 && items.length < (schema.maxItems ?? Number.POSITIVE_INFINITY)) {
        const item = shapedOf(schema.items ?? {}, `${key}[]`, random, room);
        room.left -= JSON.stringify(item).length;
        items.push(item);
      }
      return items;
    }
    case "integer":
    case "number":
      return schema.maximum ?? random();
    case "boolean":
      return true;
    default:
      return textOf(random, room);
  }
}

const wordsAtATime = 100_000;

/** A query text at its limit of bytes and operators, as far as the body has room. */
function textOf(random: () => number, room: Room): string {
  const words: string[] = [];
  let length = 0;
  const most = Math.min(room.left, limits.queryTextBytesMax) - 200;
  for (let i = 0; i < wordsAtATime && length < most; i++) {
    const plain = wordOf(Math.floor(random() * vocabulary));
    const word = i < 8 ? `${plain}~2` : i < 16 ? `${plain.slice(0, 2)}*` : plain;
    words.push(word);
    length += word.length + 1;
  }
  return words.join(" ");
}

/** Meaningful values of a key, beyond its shape. */
function hintOf(key: string, random: () => number, room: Room): unknown {
  switch (key) {
    case "query_vector":
    case "vector":
    case "dense_values":
      return vectorOf(random);
    case "id":
      return `w${Math.floor(random() * 20_000)}`;
    case "document_id":
      return "all";
    case "name":
      return "shared";
    case "queries[]":
      return undefined;
    case "query_terms":
    case "query_terms_list[]":
      return sparseOf(random, 64);
    case "sparse_indices":
      return null;
    case "sparse_values":
      return sparseOf(random, 32);
    case "metadata":
      return { a: 1.5, b: "x" };
    case "text":
      return Array.from({ length: 20 }, () => wordOf(Math.floor(random() * vocabulary))).join(" ");
    case "query_text":
      return textOf(random, { left: Math.min(room.left, 2_000) });
    case "syntax":
      return "operators";
    case "early_terminate_threshold":
    case "sparse_early_terminate_threshold":
      return 0;
    case "fusion_constant_k":
      return 60;
    case "exact":
      return true;
    case "memory_budget_bytes":
    case "max_vectors":
    case "replication_factor":
      return null;
    default:
      return undefined;
  }
}

function sparseOf(random: () => number, count: number): [number, number][] {
  const indices = new Set<number>();
  while (indices.size < count) indices.add(Math.floor(random() ** 2 * sparseDimensions));
  return Array.from(indices, (index) => [index, Math.round((random() + 0.01) * 1e3) / 1e3]);
}

/** A record of the shared collection. */
export function recordOf(number: number, random: () => number) {
  return {
    id: `v${number}`,
    document_id: "all",
    dense_values: vectorOf(random),
    sparse_values: sparseOf(random, 24),
    text: Array.from({ length: 40 }, () => wordOf(Math.floor(random() ** 3 * vocabulary))).join(" "),
    metadata: { number, part: number % 7 },
  };
}
