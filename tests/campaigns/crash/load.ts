// What do the clients of a crash campaign do?
//
// Everything that changes a collection: streaming upserts and deletes, deletes and updates by filter, patches, transactions, indexes of all
// kinds, loads and unloads, creations and deletions of collections; and reads and searches between, whose filters find what the ledger says. Each client works on its own ids in the shared collections and on its own
// collection, has one request at a time, and records it in the ledger before sending it.

import { createHash } from "node:crypto";
import { type Collection, type QuiverClient, QuiverError } from "@quiverdb/client";
import type { Snapshot } from "@quiverdb/protocol/shapes/snapshot";
import type { ModelRecord } from "../../model.ts";
import { patched } from "../model/matching.ts";
import {
  compareMatches,
  declarable,
  matching,
  ownFilter,
  randomFilter,
  randomMetadata,
  randomPatch,
} from "./filters.ts";
import {
  canonical,
  type Ledger,
  type OpenTransaction,
  type Piece,
  type PieceState,
  type Written,
} from "./ledger.ts";

export type Random = () => number;

export const dimension = 4;
/** Words that text analysis does not change. */
export const words = ["kappa", "zulu", "tango", "delta", "bravo"];
const metrics = ["cosine", "euclidean", "dot_product"] as const;
const idsPerClient = 40;
const noRetries = { retries: 0, timeoutMs: 30_000 };

export const pick = <T>(random: Random, from: readonly T[]): T => from[Math.floor(random() * from.length)];
const upTo = (random: Random, n: number) => Math.floor(random() * n);

const emptyPiece = (incarnation: number): PieceState => ({
  incarnation,
  records: new Map(),
  transaction: null,
  indexes: {},
});

/** A unique record: its metadata contains `stamp`. Small integers, so that scores are exact. */
export function randomRecord(random: Random, id: string, stamp: number): Written {
  const small = () => upTo(random, 7) - 3;
  const has = { dense: random() < 0.8, sparse: random() < 0.6 };
  const indices = [0, 1, 2, 3, 4, 5].filter(() => random() < 0.5);
  const record: ModelRecord = {
    id,
    document_id: random() < 0.5 ? `d${upTo(random, 3)}` : null,
    dense_values: has.dense ? Array.from({ length: dimension }, small) : null,
    sparse_indices: has.sparse ? indices : null,
    sparse_values: has.sparse ? indices.map(small) : null,
    text: Array.from({ length: 1 + upTo(random, 5) }, () => pick(random, words)).join(" "),
    metadata: randomMetadata(random, stamp),
  };
  return { record, canonical: canonical(record) };
}

export type Load = {
  readonly ledger: Ledger;
  readonly random: Random;
  /** Counts what was acknowledged, by kind. */
  readonly acknowledged: Record<string, number>;
  stamp: number;
};

/** How many operations of a load were acknowledged. */
export const acknowledgedIn = ({ acknowledged }: Load): number =>
  Object.values(acknowledged).reduce((sum, count) => sum + count, 0);

/** The definitions that a crash campaign's collections have. */
const definition = {
  dense_vector: { enabled: true, dimension },
  sparse_vector: { enabled: true },
  tf_idf_options: { enabled: true },
  config: {},
  store_raw_text: true,
};

/** Creates the shared collections of a new directory, with two declared fields; the first has enough records that its dense index gets a checkpoint. */
export async function begin(
  load: Load,
  client: QuiverClient,
  clients: number,
  records: number,
): Promise<void> {
  for (const [i, name] of ["shared", "zwei 二"].entries()) {
    const pieces = Array.from({ length: clients }, (_, c) =>
      load.ledger.piece(name, c, c === i % clients, c === i % clients ? null : emptyPiece(1)),
    );
    const owner = pieces[i % clients];
    await owner.attempt(load.ledger.clock, emptyPiece(1), false, async () => {
      await client.createCollection({ ...definition, name }, noRetries);
    });
    for (const field of ["color", "n"])
      await declare(load, client.collection(name), owner, owner.state as PieceState, field);
    if (i > 0 || records === 0) continue;
    const first = Array.from({ length: records }, (_, n) =>
      randomRecord(load.random, `c${owner.client}-s${n}`, ++load.stamp),
    );
    const begun = owner.state as PieceState;
    const state = {
      ...begun,
      records: new Map(first.map((written) => [written.record.id, written])),
    };
    await owner.attempt(load.ledger.clock, state, true, async () => {
      await client.collection(name).upsert(
        first.map(({ record }) => record),
        { ...noRetries, batchRecords: records },
      );
    });
    await owner.attempt(
      load.ledger.clock,
      { ...state, indexes: { ...begun.indexes, dense: "euclidean" } },
      false,
      () => createDense(client.collection(name), "euclidean"),
    );
  }
  for (let c = 0; c < clients; c++) load.ledger.piece(`own ${c}`, c, true, null);
}

function createDense(collection: Collection, metric: (typeof metrics)[number]): Promise<void> {
  return collection.createDenseIndex(
    {
      distance_metric_type: metric,
      quantization: { type: "auto", properties: { sample_threshold: 4 } },
      index: { type: "hnsw", properties: { neighbors_count: 4, ef_construction: 16 } },
    },
    noRetries,
  );
}

/** Why a client stopped: the server is gone, or it rejected a request. */
export type Stopped = QuiverError;

/**
 * Runs one client until a request fails.
 * @param isEnough asked before each operation
 */
export async function work(
  load: Load,
  client: QuiverClient,
  number: number,
  isEnough: () => boolean,
): Promise<Stopped | null> {
  const pieces = load.ledger.pieces.filter((piece) => piece.client === number);
  while (!isEnough()) {
    const piece = pick(load.random, pieces);
    try {
      await operate(load, client, piece);
    } catch (error) {
      if (error instanceof QuiverError && error.status !== 404) return error;
      throw error;
    }
  }
  return null;
}

/** One operation, or several reads, on a client's part of a collection. */
async function operate(load: Load, client: QuiverClient, piece: Piece): Promise<void> {
  const { random } = load;
  const isOwn = piece.collection.startsWith("own");
  const { state } = piece;
  if (state === null) return create(load, client, piece);
  const collection = client.collection(piece.collection);
  const dice = random();
  if (dice < 0.3) return upsert(load, collection, piece, state);
  if (dice < 0.37) return remove(load, collection, piece, state);
  if (dice < 0.47) return changeMatching(load, collection, piece, state);
  if (dice < 0.57) return read(load, collection, piece, state);
  if (!piece.isOwner) return upsert(load, collection, piece, state);
  if (dice < 0.79) return transact(load, collection, piece, state);
  if (dice < 0.86) return index(load, collection, piece, state);
  if (dice < 0.92) return declare(load, collection, piece, state);
  if (dice < 0.97 || !isOwn) return reside(load, collection);
  return drop(load, client, piece);
}

function done(load: Load, what: string): void {
  load.acknowledged[what] = (load.acknowledged[what] ?? 0) + 1;
}

let incarnations = 1;

export async function create(load: Load, client: QuiverClient, piece: Piece): Promise<void> {
  await piece.attempt(load.ledger.clock, emptyPiece(++incarnations), false, async () => {
    await client.createCollection({ ...definition, name: piece.collection }, noRetries);
  });
  done(load, "collections created");
}

export async function drop(load: Load, client: QuiverClient, piece: Piece): Promise<void> {
  await piece.attempt(load.ledger.clock, null, false, () =>
    client.deleteCollection(piece.collection, noRetries),
  );
  done(load, "collections deleted");
}

function batch(load: Load, piece: Piece): Written[] {
  const ids = new Set(
    Array.from(
      { length: 1 + upTo(load.random, 8) },
      () => `c${piece.client}-${upTo(load.random, idsPerClient)}`,
    ),
  );
  return [...ids].map((id) => randomRecord(load.random, id, ++load.stamp));
}

export async function upsert(
  load: Load,
  collection: Collection,
  piece: Piece,
  state: PieceState,
  written: readonly Written[] = batch(load, piece),
): Promise<void> {
  const records = new Map(state.records);
  for (const one of written) records.set(one.record.id, one);
  await piece.attempt(load.ledger.clock, { ...state, records }, true, async () => {
    await collection.upsert(
      written.map(({ record }) => record),
      { ...noRetries, batchRecords: written.length },
    );
  });
  done(load, "upserts");
}

export async function remove(
  load: Load,
  collection: Collection,
  piece: Piece,
  state: PieceState,
): Promise<void> {
  if (state.records.size === 0) return upsert(load, collection, piece, state);
  const id = pick(load.random, [...state.records.keys()]);
  const records = new Map(state.records);
  records.delete(id);
  await piece.attempt(load.ledger.clock, { ...state, records }, true, () => collection.delete(id, noRetries));
  done(load, "deletes");
}

/** Deletes or updates the client's records that match a filter, or patches one. */
async function changeMatching(
  load: Load,
  collection: Collection,
  piece: Piece,
  state: PieceState,
): Promise<void> {
  const { random } = load;
  const dice = random();
  const metadata = randomPatch(random);
  const isPatch = dice < 0.4 && state.records.size > 0;
  const filter = ownFilter(piece.client, randomFilter(random));
  const all = [...state.records.values()].map(({ record }) => record);
  const wanted = isPatch ? [pick(random, all)] : matching(all, filter);
  // A delete of all that there is would leave little to the others.
  const isDelete = !isPatch && dice < 0.7 && wanted.length <= idsPerClient / 2;
  const records = new Map(state.records);
  for (const record of wanted)
    if (isDelete) records.delete(record.id);
    else {
      const made = patched(record, metadata);
      records.set(record.id, { record: made, canonical: canonical(made) });
    }
  await piece.attempt(load.ledger.clock, { ...state, records }, wanted.length > 0, async () => {
    if (isPatch) return collection.patch(wanted[0].id, metadata, noRetries);
    const changed = isDelete
      ? await collection.deleteMatching(filter, noRetries)
      : await collection.updateMatching(filter, metadata, noRetries);
    if (changed !== wanted.length)
      throw new Error(
        `${isDelete ? "a delete" : "an update"} by ${JSON.stringify(filter)} changed ${changed} records, not ${wanted.length}`,
      );
  });
  done(load, isPatch ? "patches" : isDelete ? "deletes by filter" : "updates by filter");
}

/** Declares a field of the metadata, or deletes its declaration. */
async function declare(
  load: Load,
  collection: Collection,
  piece: Piece,
  state: PieceState,
  field = pick(load.random, Object.keys(declarable)),
): Promise<void> {
  const { [field]: there, ...others } = state.indexes.fields ?? {};
  const type = declarable[field];
  const fields = there === undefined ? { ...others, [field]: type } : others;
  await piece.attempt(load.ledger.clock, { ...state, indexes: { ...state.indexes, fields } }, false, () =>
    there === undefined
      ? collection.createMetadataIndex(field, type, noRetries)
      : collection.deleteMetadataIndex(field, noRetries),
  );
  done(load, there === undefined ? "fields declared" : "declarations deleted");
}

function transact(load: Load, collection: Collection, piece: Piece, state: PieceState): Promise<void> {
  if (state.transaction === null) return open(load, collection, piece, state);
  const dice = load.random();
  if (dice < 0.28) return close(load, collection, piece, state, dice < 0.2 ? "commit" : "abort");
  return stage(load, collection, piece, state);
}

export async function open(
  load: Load,
  collection: Collection,
  piece: Piece,
  state: PieceState,
): Promise<void> {
  const transaction: OpenTransaction = { id: null, staged: new Map(), upserts: 0, deletes: 0 };
  const begun: PieceState = { ...state, transaction };
  let id: string | null = null;
  await piece.attempt(
    load.ledger.clock,
    begun,
    false,
    async () => {
      ({ id } = await collection.transaction(noRetries));
    },
    () => ({ ...begun, transaction: { ...transaction, id } }),
  );
  done(load, "transactions opened");
}

export async function close(
  load: Load,
  collection: Collection,
  piece: Piece,
  state: PieceState,
  how: "commit" | "abort",
): Promise<void> {
  const { ledger } = load;
  const transaction = state.transaction as OpenTransaction;
  const id = transaction.id as string;
  const resumed = collection.resumeTransaction(id);
  const closed: PieceState = { ...state, transaction: null };
  if (how === "abort") {
    await piece.attempt(ledger.clock, closed, false, () => resumed.abort(noRetries));
    ledger.noteEnd(collection.name, state.incarnation, id, "aborted");
    done(load, "aborts");
    return;
  }
  const records = new Map(state.records);
  for (const [staged, written] of transaction.staged) {
    if (written === null) records.delete(staged);
    else records.set(staged, written);
  }
  await piece.attempt(ledger.clock, { ...closed, records }, true, () => resumed.commit(noRetries));
  ledger.noteEnd(collection.name, state.incarnation, id, "committed");
  done(load, "commits");
}

export async function stage(
  load: Load,
  collection: Collection,
  piece: Piece,
  state: PieceState,
): Promise<void> {
  const transaction = state.transaction as OpenTransaction;
  const open = collection.resumeTransaction(transaction.id as string);
  const staged = new Map(transaction.staged);
  const next = (upserts: number, deletes: number): PieceState => ({
    ...state,
    transaction: {
      id: transaction.id,
      staged,
      upserts: transaction.upserts + upserts,
      deletes: transaction.deletes + deletes,
    },
  });
  const deletable = [...state.records.keys()].filter((id) => !staged.has(id));
  if (load.random() < 0.3 && deletable.length > 0) {
    const id = pick(load.random, deletable);
    staged.set(id, null);
    await piece.attempt(load.ledger.clock, next(0, 1), false, () => open.delete(id, noRetries));
    done(load, "staged deletes");
    return;
  }
  const fresh = randomRecord(load.random, `c${piece.client}-t${++load.stamp}`, load.stamp);
  const written = [...batch(load, piece), fresh];
  for (const one of written) staged.set(one.record.id, one);
  await piece.attempt(load.ledger.clock, next(written.length, 0), false, async () => {
    await open.upsert(
      written.map(({ record }) => record),
      noRetries,
    );
  });
  done(load, "staged upserts");
}

/** Creates an index, or deletes it where it is there. */
export async function index(
  load: Load,
  collection: Collection,
  piece: Piece,
  state: PieceState,
  kind: "dense" | "sparse" | "text" = pick(load.random, ["dense", "sparse", "text"] as const),
): Promise<void> {
  const { [kind]: there, ...others } = state.indexes;
  if (there !== undefined) {
    await piece.attempt(load.ledger.clock, { ...state, indexes: others }, false, () =>
      collection.deleteIndex(kind === "text" ? "tf-idf" : kind, noRetries),
    );
    done(load, "indexes deleted");
    return;
  }
  const metric = pick(load.random, metrics);
  const text = { k1: pick(load.random, [0, 0.9, 1.2]), b: pick(load.random, [0, 0.4, 1]) };
  const made = { dense: { dense: metric }, sparse: { sparse: true as const }, text: { text } }[kind];
  await piece.attempt(load.ledger.clock, { ...state, indexes: { ...others, ...made } }, false, () => {
    if (kind === "dense") return createDense(collection, metric);
    if (kind === "sparse") return collection.createSparseIndex({ sample_threshold: 10 }, noRetries);
    return collection.createTextIndex({ ...text, sample_threshold: 10, language: "none" }, noRetries);
  });
  done(load, "indexes created");
}

export async function reside(
  load: Load,
  collection: Collection,
  isLoad = load.random() < 0.5,
): Promise<void> {
  await (isLoad ? collection.load(noRetries) : collection.unload(noRetries));
  done(load, "loads and unloads");
}

/** A snapshot, and what was in it. */
export type Taken = { readonly snapshot: Snapshot; readonly state: PieceState };

/** Makes a snapshot of a collection that only this client writes to. */
export async function snapshot(load: Load, collection: Collection, state: PieceState): Promise<Taken> {
  const taken = await collection.createSnapshot({}, noRetries);
  done(load, "snapshots");
  return { snapshot: taken, state };
}

/** Restores a collection to a snapshot: without transactions, and with versions from the snapshot's on. */
export async function restore(
  load: Load,
  collection: Collection,
  piece: Piece,
  { snapshot: taken, state }: Taken,
): Promise<void> {
  const restored: PieceState = { ...state, incarnation: ++incarnations, transaction: null };
  const book = load.ledger.versions(piece.collection, restored.incarnation);
  book.base = taken.version_number;
  await piece.attempt(load.ledger.clock, restored, false, async () => {
    await collection.restore({ snapshots: [taken.id], overwrite: true }, noRetries);
  });
  book.note(taken.version_number, taken.hash, taken.vector_count, load.ledger.clock());
  done(load, "restores");
}

/** Deletes all snapshots of a collection, each of which must be complete. */
export async function dropSnapshots(load: Load, client: QuiverClient, name: string): Promise<void> {
  const { snapshots, running } = await client.listSnapshots();
  if (running.length > 0) throw new Error("a snapshot is being created without a request");
  for (const { id, collection_name, sha256 } of snapshots) {
    if (collection_name !== name) throw new Error(`a snapshot is of '${collection_name}'`);
    const hash = createHash("sha256");
    for await (const chunk of client.collection(name).downloadSnapshot(id, noRetries)) hash.update(chunk);
    if (hash.digest("hex") !== sha256) throw new Error(`the file of the snapshot ${id} is not what it was`);
    await client.collection(name).deleteSnapshot(id, noRetries);
    done(load, "snapshots deleted");
  }
}

/** Reads the version, which must not change, and searches while others write. */
async function read(load: Load, collection: Collection, piece: Piece, state: PieceState): Promise<void> {
  const { version_number, hash, vector_count } = await collection.currentVersion(noRetries);
  load.ledger
    .versions(piece.collection, state.incarnation)
    .note(version_number, hash, vector_count, load.ledger.clock());
  if (piece.isOwner && state.indexes.dense)
    await collection.search.dense(
      { query_vector: Array.from({ length: dimension }, load.random), top_k: 5 },
      noRetries,
    );
  if (piece.isOwner && state.indexes.text)
    await collection.search.text({ query: pick(load.random, words), top_k: 5 }, noRetries);
  // Nobody else changes the client's records.
  const filter = ownFilter(piece.client, randomFilter(load.random));
  const records = [...state.records.values()].map(({ record }) => record);
  const fields = piece.isOwner ? state.indexes.fields : {};
  await compareMatches(collection, filter, records, fields, load.random, noRetries);
  done(load, "reads and searches");
}
