// What is the immutable definition of a collection?

import { collectionNameProblem, collectionNameRule } from "@quiverdb/protocol/collection-name";
import { QuiverError } from "@quiverdb/protocol/errors";
import { checkFields } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import { type CollectionSummary, CreateCollection } from "@quiverdb/protocol/shapes/collection";
import { bytesBeyond, text, utf8 } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import type { Reader, Writer } from "../storage/store.ts";
import { answerMs, keyReused, type Once, tooManyKeys } from "./answers.ts";
import type { HistoryPolicy } from "./history.ts";
import { encodePlace, type Place } from "./place.ts";
import type { Shard } from "./shard.ts";
import { metaKeys } from "./tables.ts";

/** What never changes about a collection. */
export type CollectionDefinition = {
  name: string;
  description?: string;
  /** null when dense vectors are not enabled and no dimension was given. */
  dimension: number | null;
  dense: boolean;
  sparse: boolean;
  text: boolean;
  maxVectors: number | null;
  replicationFactor: number | null;
  /** Memory limit of its indexes in bytes; absent if it has no separate limit. */
  memoryBudgetBytes?: number;
  storeRawText: boolean;
  /** How far back versions were readable when it was created; absent: not at all. The store has what holds now (history.ts). */
  history?: HistoryPolicy;
  /** Into how many shards its records are divided; absent: they are not. */
  shards?: number;
  /** Of one of several shards: which it is. Its name is that of the collection, '#' and the number. */
  shard?: Shard;
  /** Of a copy: which version of which collection it began as. */
  origin?: { name: string; internalId?: string; version: number; hash: string };
};

/** @throws invalid_name */
export function checkCollectionName(name: unknown): asserts name is string {
  const problem = collectionNameProblem(name);
  if (problem === null) return;
  throw new QuiverError("invalid_name", `name ${problem}. A collection name has ${collectionNameRule}.`, {
    path: "name",
  });
}

function invalid(path: string, message: string): QuiverError {
  return new QuiverError("invalid_request", `${path} ${message}`, { path });
}

/** Whether the collection has a kind of content; what is left out is not enabled. */
function isEnabled(
  request: CreateCollection,
  kind: "dense_vector" | "sparse_vector" | "tf_idf_options",
): boolean {
  const enabled: unknown = request[kind] == null ? false : request[kind].enabled;
  if (typeof enabled !== "boolean") throw invalid(`${kind}.enabled`, "must be true or false.");
  return enabled;
}

function positive(value: number | null | undefined, path: string, max: number): number | null {
  if (value === null || value === undefined) return null;
  if (!Number.isInteger(value) || value < 1 || value > max)
    throw invalid(path, `must be an integer from 1 to ${max} or null; received ${value}.`);
  return value;
}

/** Checks a create request completely. @throws unknown_field, invalid_name, invalid_request */
export function defineCollection(request: CreateCollection): CollectionDefinition {
  checkFields(CreateCollection, request);
  checkCollectionName(request.name);
  const { description } = request;
  if (typeof description === "string") {
    if (!description.isWellFormed()) throw invalid("description", "has half of a surrogate pair.");
    const bytes = bytesBeyond(description, limits.descriptionBytesMax);
    if (bytes > 0)
      throw invalid("description", `has ${bytes} bytes, at most ${limits.descriptionBytesMax} are allowed.`);
  }
  const dense = isEnabled(request, "dense_vector");
  const sparse = isEnabled(request, "sparse_vector");
  const text = isEnabled(request, "tf_idf_options");
  if (!dense && !sparse && !text)
    throw invalid(
      "dense_vector.enabled",
      'is not true, and neither is sparse_vector.enabled nor tf_idf_options.enabled; enable at least one of the three, such as with "dense_vector": {"enabled": true, "dimension": 384}.',
    );
  const dimension = positive(request.dense_vector?.dimension, "dense_vector.dimension", limits.dimensionMax);
  if (dense && dimension === null)
    throw invalid(
      "dense_vector.dimension",
      `is missing; it is required when dense vectors are enabled: an integer from 1 to ${limits.dimensionMax}.`,
    );
  const history = historyPolicy(request.config?.history);
  const maxVectors = positive(request.config?.max_vectors, "config.max_vectors", Number.MAX_SAFE_INTEGER);
  const shards = positive(request.config?.shards, "config.shards", limits.shardsMax) ?? 1;
  if (shards > 1 && maxVectors !== null)
    throw invalid(
      "config.max_vectors",
      `cannot be together with ${shards} shards: none of them has all records. Leave out one of the two.`,
    );
  const memoryBudgetBytes = positive(
    request.config?.memory_budget_bytes,
    "config.memory_budget_bytes",
    Number.MAX_SAFE_INTEGER,
  );
  return {
    name: request.name,
    ...(typeof description === "string" && { description }),
    dense,
    dimension,
    sparse,
    text,
    maxVectors,
    replicationFactor: positive(
      request.config?.replication_factor,
      "config.replication_factor",
      Number.MAX_SAFE_INTEGER,
    ),
    ...(memoryBudgetBytes !== null && { memoryBudgetBytes }),
    storeRawText: request.store_raw_text ?? false,
    ...(history !== null && { history }),
    ...(shards > 1 && { shards }),
  };
}

/** The name of a collection, also of one of its shards. */
export const nameOf = ({ name }: Pick<CollectionDefinition, "name">): string => name.split("#", 1)[0];

/** Whether a name is that of a shard, which no caller gives. */
export const isOfShard = (name: string): boolean => name.includes("#");

/** The definition of one of the shards of a collection. */
export const ofShard = (
  definition: CollectionDefinition,
  number: number,
  of: number,
): CollectionDefinition => ({
  ...definition,
  name: `${definition.name}#${number}`,
  shard: { number, of },
});

/** The definition of the collection of a shard. */
export function collectionOf({ shard, ...definition }: CollectionDefinition): CollectionDefinition {
  return { ...definition, name: nameOf(definition), ...(shard !== undefined && { shards: shard.of }) };
}

/** The internal id of a collection, also of one of its shards. */
export const collectionIdOf = (internalId: string): string => internalId.split("-", 1)[0];

/** The internal id of one of the shards of a collection. */
export const shardIdOf = (internalId: string, number: number): string => `${internalId}-${number}`;

/** How far back versions shall be readable; null: not at all. @throws invalid_request */
export function historyPolicy(given: unknown): HistoryPolicy | null {
  if (given === "all") return "all";
  if (given === null || given === undefined) return null;
  const { versions, seconds } = (typeof given === "object" && given !== null ? given : {}) as {
    versions?: number | null;
    seconds?: number | null;
  };
  const number = versions ?? seconds;
  if (typeof given === "object" && !Array.isArray(given) && number == null) return null;
  const isOne = (versions == null) !== (seconds == null);
  if (!isOne || !Number.isSafeInteger(number) || (number as number) < 1 || (number as number) > historyMax)
    throw invalid(
      "config.history",
      `must be {"versions": n}, {"seconds": s}, with a number from 1 to ${historyMax}, or "all".`,
    );
  return versions == null ? { seconds: number as number } : { versions: versions as number };
}

/** Greatest number of versions, or seconds: more than a hundred years. */
const historyMax = 4_000_000_000;

export function summaryOf(definition: CollectionDefinition): CollectionSummary {
  const { description } = definition;
  return { name: nameOf(definition), ...(description !== undefined && { description }) };
}

// ---- Which collections exist, and in which directory is each?
//
// The directory of a collection has an internal id for its name, never the collection's name. A collection exists if the catalog has an
// entry for it. A directory without an entry is left over from an interrupted creation or deletion, and the next start removes it.

export type CatalogEntry = {
  internalId: string;
  createdMs: number;
  loaded: boolean;
  definition: CollectionDefinition;
  /** Nodes of a cluster that hold it; absent in a database alone. */
  replicas?: readonly string[];
  /** The node that has made its store, by a restore or a copy; the others copy it. */
  madeOn?: string;
  /** Of an earlier version that is open: the internal id of its collection. */
  pastOf?: string;
};

/** What was answered to a request with an Idempotency-Key (answers.ts). `value` is JSON. */
export type CatalogAnswer = Once & { readonly timeMs: number; readonly value: unknown };

/** Prefixes of keys of the table `credentials` that have nothing to do with keys and sessions. */
export const aliasPrefix = "alias/";
export const answerPrefix = "answer/";

/** A change of the catalog; each is one durable store write, with what was answered to its request. */
export type CatalogRequest =
  | { kind: "putCollection"; entry: CatalogEntry; answer?: CatalogAnswer | undefined }
  | { kind: "deleteCollection"; name: string; answer?: CatalogAnswer | undefined }
  /** `isNote`: only if there is something under the key. */
  | { kind: "putCredential"; key: string; value: unknown; isNote?: true; answer?: CatalogAnswer | undefined }
  | { kind: "deleteCredential"; key: string; answer?: CatalogAnswer | undefined }
  /** How far in a replicated log the catalog is. */
  | { kind: "putPlace"; place: Place };

/** The table, key and value of a change. Without a value, the key is deleted. */
export function catalogChange(request: CatalogRequest): {
  table: "collections" | "credentials" | "meta";
  key: Uint8Array;
  value?: Uint8Array;
} {
  switch (request.kind) {
    case "putCollection":
      invariant(
        /^[0-9a-z-]+$/i.test(request.entry.internalId),
        `the collection '${request.entry.definition.name}' has the internal id '${request.entry.internalId}'`,
      );
      return {
        table: "collections",
        key: utf8(request.entry.definition.name),
        value: utf8(JSON.stringify(request.entry)),
      };
    case "deleteCollection":
      return { table: "collections", key: utf8(request.name) };
    case "putCredential":
      return { table: "credentials", key: utf8(request.key), value: utf8(JSON.stringify(request.value)) };
    case "deleteCredential":
      return { table: "credentials", key: utf8(request.key) };
    case "putPlace":
      return { table: "meta", key: metaKeys.place, value: encodePlace(request.place) };
  }
}

/** Stores the answer to a request with a key, and removes those that are a day old. */
export function keepCatalogAnswer(writer: Writer, { key, ...answer }: CatalogAnswer): void {
  const old = readCredentials(writer, answerPrefix).filter(([, value]) => isOld(value, answer.timeMs));
  for (const [name] of old) writer.delete("credentials", utf8(name));
  writer.put("credentials", utf8(answerPrefix + key), utf8(JSON.stringify(answer)));
}

const isOld = (answer: unknown, nowMs: number): boolean =>
  (answer as Omit<CatalogAnswer, "key">).timeMs < nowMs - answerMs;

/**
 * The answer to an earlier request with this key; undefined: there was none in the last day.
 * @throws idempotency_key_reused, too_many_idempotency_keys
 */
export function catalogAnswerTo(
  reader: Reader,
  { key, fingerprint }: Once,
  nowMs: number,
): { readonly value: unknown } | undefined {
  const kept = readCredentials(reader, answerPrefix).filter(([, value]) => !isOld(value, nowMs));
  const found = kept.find(([name]) => name === answerPrefix + key)?.[1] as CatalogAnswer | undefined;
  if (found === undefined) {
    if (kept.length >= limits.catalogAnswersMax) throw tooManyKeys("The database", limits.catalogAnswersMax);
    return undefined;
  }
  if (found.fingerprint !== fingerprint) throw keyReused(key);
  return found;
}

export function readCredential(reader: Reader, key: string): unknown {
  const value = reader.get("credentials", utf8(key));
  return value && JSON.parse(text(value));
}

export function readCredentials(reader: Reader, prefix: string): [string, unknown][] {
  return [...reader.entries("credentials", { start: utf8(prefix || "\u0001") })]
    .map(([key, value]): [string, unknown] => [text(key), JSON.parse(text(value))])
    .filter(([key]) => key.startsWith(prefix));
}
