// How do tests get a log, and inspect the store of a collection?

import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import fc from "fast-check";
import { toHex, utf8 } from "../../src/base/bytes.ts";
import { fingerprint, isAlone, type LoggedRequest } from "../../src/collection/accept.ts";
import { readIndexDefinitions } from "../../src/collection/apply.ts";
import { type CollectionDefinition, defineCollection } from "../../src/collection/definition.ts";
import { prepareCollection } from "../../src/collection/format.ts";
import { readHead } from "../../src/collection/head.ts";
import type { HistoryPolicy } from "../../src/collection/history.ts";
import { allVectors } from "../../src/collection/reading.ts";
import { encodeDelete, encodeUpserts } from "../../src/collection/schema.ts";
import { collectionTables } from "../../src/collection/tables.ts";
import { listTransactions } from "../../src/collection/transaction.ts";
import { defineDenseIndex } from "../../src/index/dense/kind.ts";
import { defineSparseIndex } from "../../src/index/sparse/kind.ts";
import { decodeMessage, encodeMessage } from "../../src/log/message.ts";
import { applyOrdered, type OrderedMessage } from "../../src/log/ordered.ts";
import { LocalSequencer, type TrialOptions, type WriteOutcome } from "../../src/log/sequencer.ts";
import { MemoryStore } from "../../src/storage/memory.ts";
import type { ReadTransaction, Store } from "../../src/storage/store.ts";

export const definition: CollectionDefinition = defineCollection({
  name: "c",
  dense_vector: { enabled: true, dimension: 2 },
  sparse_vector: { enabled: true },
  tf_idf_options: { enabled: true },
  config: {},
  store_raw_text: true,
});

/** When every collection of these tests was created. */
export const createdMs = 1_700_000_000_000;

/** Makes a store the collection at version 0. */
export function prepared<S extends Store>(store: S): S {
  prepareCollection(store, createdMs, definition);
  return store;
}

export function read<T>(store: Store, act: (readTxn: ReadTransaction) => T): T {
  const readTxn = store.beginRead();
  try {
    return act(readTxn);
  } finally {
    readTxn.release();
  }
}

/** Every byte of a store that follows from the log: all tables but the one that is local to a node. */
export function stateOf(store: Store): string[] {
  return read(store, (readTxn) =>
    collectionTables
      .filter((table) => table !== "indexed")
      .flatMap((table) =>
        Array.from(readTxn.entries(table), ([key, value]) => `${table} ${toHex(key)} ${toHex(value)}`),
      ),
  );
}

/** The state of a store that users see, independent of the history that it keeps. */
export function seenOf(store: Store): unknown {
  return read(store, (readTxn) => ({
    hash: toHex(readHead(readTxn).hash),
    vectors: Array.from(allVectors(readTxn), (vector) => JSON.stringify(vector.toRecord())),
    definitions: readIndexDefinitions(readTxn),
    transactions: listTransactions(readTxn),
  }));
}

/** `born`: the version that must have written it, 0 for none; null: any. */
type StepRecord = { id: number; x: number; what: number; born?: number | null };

/** A request by small numbers; of transactions the last one that has begun is meant. `once`: its key, of which there are few. */
export type Step = { once?: number | null } & (
  | { do: "upsert" | "stage" | "change"; records: readonly StepRecord[] }
  | { do: "delete" | "stageDelete" | "patch"; id: number; born?: number | null }
  | { do: "begin" | "commit" | "abort" | "abortIdle" }
  | { do: "createIndex" | "deleteIndex"; index: IndexKind }
  | { do: "setHistory"; policy: HistoryPolicy | null }
  | { do: "putTag" | "restoreVersion"; version: number }
  | { do: "deleteTag"; version: number }
  | { do: "vacuum" }
);

const idArbitrary = fc.integer({ min: 0, max: 9 });
const born = fc.option(fc.integer({ min: 0, max: 6 }), { freq: 4 });
const records = fc.array(
  fc.record({
    id: idArbitrary,
    x: fc.integer({ min: 0, max: 3 }),
    what: fc.integer({ min: 0, max: 7 }),
    born,
  }),
  { minLength: 1, maxLength: 4 },
);
const unkeyed = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("upsert" as const), records }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("change" as const), records }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("delete" as const), id: idArbitrary, born }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("patch" as const), id: idArbitrary, born }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("stage" as const), records }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("stageDelete" as const), id: idArbitrary, born }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("begin" as const) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("commit" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("abort" as const, "abortIdle" as const),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("createIndex" as const, "deleteIndex" as const),
      index: fc.constantFrom("dense" as const, "sparse" as const, "tf-idf" as const),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("setHistory" as const),
      policy: fc.constantFrom<HistoryPolicy | null>(null, "all", { versions: 3 }, { seconds: 1 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom("putTag" as const, "restoreVersion" as const, "deleteTag" as const),
      version: fc.integer({ min: 0, max: 12 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("vacuum" as const) }) },
);

const step: fc.Arbitrary<Step> = fc
  .tuple(unkeyed, fc.option(fc.integer({ min: 0, max: 5 }), { freq: 2 }))
  .map(([each, once]) => ({ ...each, once }) as Step);

/** The requests to a collection, in groups that are sent together. */
export const historyArbitrary = fc.record({
  groups: fc.array(fc.array(step, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 20 }),
  maxVectors: fc.constantFrom(null, 5),
  versionsKept: fc.constantFrom(1, 3, 1_000),
});
export type History = TrialOptions & { groups: readonly (readonly Step[])[] };

/** The result of a history. */
export type Recorded = {
  /** The log: its messages as bytes. */
  log: Uint8Array[];
  /** `stateOf` before the first message and after each. */
  states: string[][];
  /** Outcomes of all requests, in order: "ok" or the code of the error. */
  outcomes: string[];
  seen: unknown;
};

const opIdOf = (number: number): string => number.toString(16).padStart(32, "0");

/** The place of a message in the log, in which those of other collections lie between. */
export const positionOf = (index: number): number => 3 * index + 2;

/** The messages of a log, from one on. */
export const messagesOf = (log: readonly Uint8Array[], from = 0): OrderedMessage[] =>
  log.slice(from).map((bytes, i) => ({ position: positionOf(from + i), ...decodeMessage(bytes) }));

/** Executes all requests of a history on a new collection, as a replica to which a log brings them. */
export function record(history: History, store: Store = new MemoryStore(collectionTables)): Recorded {
  prepared(store);
  const log: Uint8Array[] = [];
  const states = [stateOf(store)];
  const outcomes: WriteOutcome[] = [];
  eachGroup(history, store, (requests, timeMs) => {
    for (const part of partsOf(requests)) {
      const number = log.length + 1;
      log.push(encodeMessage({ epoch: 0, timeMs, opId: opIdOf(number), requests: part }));
      for (const applied of [...applyOrdered(store, messagesOf(log, number - 1), history)].flat())
        outcomes.push(...(applied.outcomes ?? []));
      states.push(stateOf(store));
    }
  });
  return { log, states, outcomes: outcomes.map(codeOf), seen: seenOf(store) };
}

/** The same with the sequencer of a node alone. */
export function recordAlone(history: History): Pick<Recorded, "outcomes" | "seen"> {
  const store = prepared(new MemoryStore(collectionTables));
  const outcomes: WriteOutcome[] = [];
  let [nowMs, opIds] = [createdMs, 0];
  const options = { ...history, clock: () => nowMs, newOpId: () => opIdOf(++opIds) };
  const sequencer = new LocalSequencer(store, options);
  eachGroup(history, store, (requests, timeMs) => {
    nowMs = timeMs;
    for (const part of sequencer.write(requests)) outcomes.push(...part);
  });
  return { outcomes: outcomes.map(codeOf), seen: seenOf(store) };
}

/** Calls with the requests of each group, which depend on what the groups before have made, and with their time. */
function eachGroup(
  { groups }: History,
  store: Store,
  act: (requests: LoggedRequest[], timeMs: number) => void,
): void {
  let random = 0;
  let timeMs = createdMs;
  for (const group of groups) {
    const transactionId = read(store, (s) => listTransactions(s)[0]?.id) ?? `1-${"0".repeat(24)}`;
    act(
      group.map((each) => requestOf(each, transactionId, timeMs, ++random)),
      timeMs,
    );
    timeMs++;
  }
}

/** Requests as messages have them: some are alone. */
function partsOf(requests: readonly LoggedRequest[]): LoggedRequest[][] {
  const parts: LoggedRequest[][] = [];
  for (const [i, request] of requests.entries()) {
    if (i === 0 || isAlone(request) || isAlone(requests[i - 1])) parts.push([request]);
    else parts[parts.length - 1].push(request);
  }
  return parts;
}

const codeOf = (outcome: WriteOutcome): string =>
  outcome.ok ? "ok" : String((outcome.error as { code?: string }).code ?? outcome.error);

function requestOf(given: Step, transactionId: string, nowMs: number, random: number): LoggedRequest {
  const request = unkeyedOf(given, transactionId, nowMs, random);
  if (given.once == null) return request;
  return { ...request, once: { key: `k${given.once}`, fingerprint: fingerprint(request) } };
}

const conditionOf = (born: number | null = null): { if_match?: number; if_absent?: boolean } =>
  born === null ? {} : born === 0 ? { if_absent: true } : { if_match: born };

function unkeyedOf(given: Step, transactionId: string, nowMs: number, random: number): LoggedRequest {
  switch (given.do) {
    case "upsert":
      return { kind: "upsert", batch: batchOf(given.records) };
    case "delete":
      return { kind: "delete", batch: encodeDelete(`r${given.id}`, conditionOf(given.born)) };
    case "change":
      return { kind: "change", batch: batchOf(given.records), from: "copy", told: { added: 1 } };
    case "patch":
      return {
        kind: "patch",
        id: utf8(`r${given.id}`),
        patch: '{"p":1}',
        ...(given.born && { born: given.born }),
      };
    case "stage":
      return { kind: "stage", transactionId, batch: batchOf(given.records) };
    case "stageDelete":
      return { kind: "stage", transactionId, batch: encodeDelete(`r${given.id}`, conditionOf(given.born)) };
    case "begin":
      return { kind: "begin", random: random.toString(16).padStart(24, "0") };
    case "commit":
    case "abort":
      return { kind: given.do, transactionId };
    case "abortIdle":
      return { kind: "abort", transactionId, idleSinceMs: nowMs - 3 };
    case "createIndex":
      return { kind: "createIndex", index: given.index, definition: definitionOf(given.index) };
    case "deleteIndex":
      return { kind: "deleteIndex", index: given.index };
    case "setHistory":
      return { kind: "setHistory", policy: given.policy };
    case "putTag":
      return { kind: "putTag", name: `t${given.version % 3}`, version: given.version };
    case "deleteTag":
      return { kind: "deleteTag", name: `t${given.version % 3}` };
    case "restoreVersion":
      return { kind: "restoreVersion", version: given.version };
    case "vacuum":
      return { kind: "vacuum" };
  }
}

function batchOf(given: readonly StepRecord[]): Uint8Array {
  const vectors = given.map(({ id, x, what, born }) => ({
    id: `r${id}`,
    ...conditionOf(born),
    dense_values: [x, id],
    ...(what & 1 && { document_id: `d${id % 3}` }),
    ...(what & 2 && { sparse_indices: [x, 9], sparse_values: [1, 2] }),
    ...(what & 4 && { text: `word${x}`, metadata: { x } }),
  }));
  return encodeUpserts(definition, vectors, "vectors");
}

function definitionOf(kind: IndexKind) {
  if (kind === "dense") return defineDenseIndex(definition, { distance_metric_type: "cosine" });
  if (kind === "sparse") return defineSparseIndex(definition, {});
  return { name: "t", sample_threshold: 0, k1: 1.2, b: 0.75, language: "english" as const };
}
