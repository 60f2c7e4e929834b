// Does the ledger allow the state of a server after a crash?
//
// Every client's part is, as a whole, in one of its possible states; no record exists that was never written; versions continue from the
// observed ones by the number of changes; and every index returns the results of full scans over the records, with filters and without.

import type { Collection, QuiverClient } from "@quiverdb/client";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import { ModelCollection, type ModelRecord, type Ranked, tolerance } from "../../model.ts";
import { compareMatches, matching, randomFilter } from "./filters.ts";
import {
  canonical,
  end,
  type IndexState,
  type Ledger,
  type Piece,
  type PieceState,
  type State,
} from "./ledger.ts";
import { dimension, pick, type Random, words } from "./load.ts";

type Found = {
  readonly records: ReadonlyMap<string, string>;
  readonly transaction: { id: string; upserts: number; deletes: number } | null;
  readonly indexes: IndexState;
};

/** What was compared. `filters`: counts, lists, facets and searches with a filter. */
export type Verified = { records: number; searches: number; filters: number };

/**
 * Compares, and settles the ledger on the state that was found. A violation leaves the ledger as it was, for a replay.
 * @param moment the moment of the crash
 * @throws at a violation
 */
export async function verify(
  unsettled: Ledger,
  client: QuiverClient,
  random: Random,
  moment = end,
): Promise<Verified> {
  const names = new Set((await client.listCollections()).map(({ name }) => name));
  const total: Verified = { records: 0, searches: 0, filters: 0 };
  const ledger = unsettled.copy();
  for (const name of ledger.collections) {
    const pieces = ledger.of(name);
    const isThere = names.delete(name);
    try {
      if (!isThere) settleAbsent(pieces, moment);
      else {
        const one = await verifyCollection(ledger, client.collection(name), pieces, random, moment);
        total.records += one.records;
        total.searches += one.searches;
        total.filters += one.filters;
      }
    } catch (error) {
      throw new Error(`collection '${name}': ${(error as Error).message}`, { cause: error });
    }
  }
  if (names.size > 0)
    throw new Error(`there are collections that were never created: ${[...names].join(", ")}`);
  unsettled.adopt(ledger);
  return total;
}

/** The owner's part decides whether a shared collection exists; if it does not, the parts of the others are empty. */
function settleAbsent(pieces: readonly Piece[], moment: number): void {
  for (const piece of pieces) {
    const isAllowed = piece
      .candidates(moment)
      .some(({ state }) => (piece.isOwner ? state === null : (state?.records.size ?? 0) === 0));
    if (!isAllowed)
      throw new Error(`it is gone, although a request of client ${piece.client} was acknowledged`);
    if (piece.isOwner) piece.settle(null);
  }
}

async function verifyCollection(
  ledger: Ledger,
  collection: Collection,
  pieces: readonly Piece[],
  random: Random,
  moment: number,
): Promise<Verified> {
  const found = await look(collection);
  const settled: Settled[] = [];
  let owner: PieceState | undefined;
  const known = new Set<string>();
  for (const piece of pieces) {
    const one = settlePiece(piece, found, moment);
    for (const id of one.state.records.keys()) known.add(id);
    settled.push(one);
    if (piece.isOwner) owner = one.state;
  }
  for (const id of found.records.keys())
    if (!known.has(id)) throw new Error(`the record '${id}' was never written`);
  const { incarnation, indexes } = owner as PieceState;
  await verifyVersions(ledger, collection, incarnation, known.size, settled, moment);
  await verifyEnded(ledger, collection, incarnation, moment);
  const records = settled.flatMap(({ state }) => [...state.records.values()].map(({ record }) => record));
  return { records: known.size, ...(await verifyIndexes(collection, records, indexes, random)) };
}

async function look(collection: Collection): Promise<Found> {
  const records = new Map<string, string>();
  for await (const line of collection.export()) {
    const record = JSON.parse(line) as ModelRecord;
    if (records.has(record.id)) throw new Error(`the record '${record.id}' is there twice`);
    records.set(record.id, canonical(record));
  }
  const open = (await collection.transactions()).filter(({ status }) => "NotStarted" in status);
  if (open.length > 1) throw new Error(`${open.length} transactions are open`);
  const transaction = open.map(({ transaction_id, status }) => {
    const { records_upserted, records_deleted } = Object.values(status)[0].stats;
    return { id: transaction_id, upserts: records_upserted, deletes: records_deleted };
  })[0];
  const { dense, sparse, "tf-idf": text } = await collection.indexes();
  const declared = await collection.metadataIndexes();
  return {
    records,
    transaction: transaction ?? null,
    indexes: {
      ...(dense && { dense: dense.distance_metric_type }),
      ...(sparse && { sparse: true }),
      ...(text && { text: { k1: text.k1, b: text.b } }),
      fields: Object.fromEntries(declared.map(({ field, type }) => [field, type])),
    },
  };
}

/** The state of a part, and how many versions its client made. A patch that changes nothing makes one, too. */
type Settled = { state: PieceState; least: number; most: number };

function settlePiece(piece: Piece, found: Found, moment: number): Settled {
  const candidates = piece.candidates(moment);
  const differences: string[] = [];
  const possible: typeof candidates = [];
  for (const candidate of candidates) {
    const difference = differs(piece, candidate.state, found);
    if (difference === null) possible.push(candidate);
    else differences.push(difference);
  }
  const [first] = possible;
  if (first === undefined)
    throw new Error(
      `client ${piece.client} finds none of the ${candidates.length} possible states: ${differences.join("; or: ")}`,
    );
  const { transaction, ...state } = first.state as PieceState;
  const settled: PieceState = {
    ...state,
    transaction: transaction && { ...transaction, id: (found.transaction as { id: string }).id },
  };
  piece.settle(settled);
  const versions = possible.map((each) => each.versions);
  return { state: settled, least: Math.min(...versions), most: Math.max(...versions) };
}

/** The difference to a state; null if there is none. */
function differs(piece: Piece, state: State, found: Found): string | null {
  if (state === null) return "the collection should not be there";
  const own = [...found.records].filter(([id]) => id.startsWith(`c${piece.client}-`));
  for (const [id, { canonical: expected }] of state.records) {
    const there = found.records.get(id);
    if (there === undefined) return `the record '${id}' is missing: ${expected}`;
    if (there !== expected) return `the record '${id}' is ${there}, not ${expected}`;
  }
  for (const [id, there] of own)
    if (!state.records.has(id)) return `the record '${id}' should not be there: ${there}`;
  if (!piece.isOwner) return null;
  const expectedIndexes = JSON.stringify(sorted(state.indexes));
  const indexes = JSON.stringify(sorted(found.indexes));
  if (indexes !== expectedIndexes) return `the indexes are ${indexes}, not ${expectedIndexes}`;
  return transactionDiffers(state, found);
}

const sorted = ({ dense, sparse, text, fields = {} }: IndexState) => [
  dense,
  sparse,
  text && [text.k1, text.b],
  Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1)),
];

function transactionDiffers({ transaction }: PieceState, found: Found): string | null {
  const open = found.transaction;
  if (transaction === null) return open ? `the transaction ${open.id} should not be open` : null;
  if (open === null) return `the transaction ${transaction.id} should be open`;
  if (transaction.id !== null && transaction.id !== open.id)
    return `${open.id} is open, not ${transaction.id}`;
  const { upserts, deletes } = transaction;
  if (open.upserts === upserts && open.deletes === deletes) return null;
  return `the transaction has ${open.upserts} upserts and ${open.deletes} deletes, not ${upserts} and ${deletes}`;
}

async function verifyVersions(
  ledger: Ledger,
  collection: Collection,
  incarnation: number,
  count: number,
  made: readonly Settled[],
  moment: number,
): Promise<void> {
  const book = ledger.versions(collection.name, incarnation);
  const { versions, current_hash, current_version } = await collection.versions();
  const { vectors_count } = await collection.describe();
  const [newest] = versions;
  if (newest.hash !== current_hash || newest.version_number !== current_version)
    throw new Error("the current version is not the newest of the list");
  if (newest.vector_count !== count || vectors_count !== count)
    throw new Error(
      `${count} records are there, the version has ${newest.vector_count}, the collection ${vectors_count}`,
    );
  const grown = current_version - book.base;
  const most = made.reduce((sum, one) => sum + one.most, 0);
  const least = Math.max(0, ...made.map((one) => one.least));
  if (grown < least || grown > most)
    throw new Error(
      `${least} to ${most} versions were made since version ${book.base}; it is version ${current_version}`,
    );
  for (const [i, version] of versions.entries()) {
    if (version.version_number !== current_version - i)
      throw new Error(`version ${current_version - i} is not listed`);
    const seen = book.seen.get(version.version_number);
    if (seen && seen.at <= moment && (seen.hash !== version.hash || seen.count !== version.vector_count))
      throw new Error(`version ${version.version_number} was ${seen.hash} and is ${version.hash}`);
  }
  if (new Set(versions.map(({ hash }) => hash)).size !== versions.length)
    throw new Error("two versions have one hash");
  for (const [number, { at }] of book.seen) {
    if (at <= moment && number > current_version)
      throw new Error(`version ${number} was seen; now the newest is ${current_version}`);
    if (at > moment) book.seen.delete(number);
  }
  for (const { version_number, hash, vector_count } of versions.slice(0, 50))
    book.note(version_number, hash, vector_count, -1);
  book.base = current_version;
}

async function verifyEnded(
  ledger: Ledger,
  collection: Collection,
  incarnation: number,
  moment: number,
): Promise<void> {
  const ended = ledger.ended.get(`${collection.name} ${incarnation}`);
  if (!ended) return;
  const now = new Map(
    (await collection.transactions()).map(({ transaction_id, status }) => [transaction_id, status]),
  );
  for (const [id, { how, at }] of [...ended].slice(-200)) {
    if (at > moment) continue;
    const [state] = Object.keys(now.get(id) ?? { missing: null });
    const isRight = how === "aborted" ? state === "Aborted" : state === "InProgress" || state === "Complete";
    if (!isRight) throw new Error(`the transaction ${id} was ${how} and is ${state}`);
  }
}

/** Filters in each comparison of a collection. */
const filtersPerCollection = 3;

/** Searches of every index against full scans, and filters. @returns how many */
async function verifyIndexes(
  collection: Collection,
  records: readonly ModelRecord[],
  indexes: IndexState,
  random: Random,
): Promise<Omit<Verified, "records">> {
  const searches = await verifySearches(collection, records, indexes, random, null);
  let filters = 0;
  for (let i = 0; i < filtersPerCollection; i++) {
    const filter = randomFilter(random);
    filters += await compareMatches(collection, filter, records, indexes.fields, random);
    filters += await verifySearches(collection, records, indexes, random, filter);
  }
  return { searches, filters };
}

/** Searches of every index, with a filter or without, against full scans. @returns how many */
async function verifySearches(
  collection: Collection,
  records: readonly ModelRecord[],
  indexes: IndexState,
  random: Random,
  filter: Filter | null,
): Promise<number> {
  const model = new ModelCollection(null);
  for (const record of records) model.records.set(record.id, record);
  const top_k = 10_000;
  let searches = 0;
  const ids = filter && new Set(matching(records, filter).map(({ id }) => id));
  const among = (ranked: Ranked): Ranked => (ids === null ? ranked : ranked.filter(({ id }) => ids.has(id)));
  if (indexes.dense) {
    model.metric = indexes.dense;
    const query_vector = Array.from({ length: dimension }, () => Math.floor(random() * 7) - 3);
    const expected = among(model.dense(query_vector));
    const exact = await collection.search.dense({ query_vector, top_k, exact: true, filter });
    compareRanking("dense", exact.results, expected, expected.length);
    const near = await collection.search.dense({ query_vector, top_k: 10, filter });
    compareRanking("near dense", near.results, expected, Math.min(10, expected.length));
    searches += 2;
  }
  if (indexes.sparse) {
    const terms = [0, 1, 2, 3, 4, 5].map((index): [number, number] => [index, Math.floor(random() * 5) - 2]);
    const expected = among(model.sparse(terms));
    const query_terms = terms.map(([index, value]) => ({ index, value }));
    compareRanking(
      "sparse",
      (await collection.search.sparse({ query_terms, top_k, filter })).results,
      expected,
      expected.length,
    );
    searches++;
  }
  if (indexes.text) {
    model.text = indexes.text;
    const query = [pick(random, words), pick(random, words)];
    const expected = among(model.bm25([...new Set(query)]));
    const { results } = await collection.search.text({ query: [...new Set(query)].join(" "), top_k, filter });
    compareRanking("text", results, expected, expected.length);
    searches++;
  }
  return searches;
}

/** The expected number of hits, each with its score, in order. */
function compareRanking(kind: string, found: Ranked, model: Ranked, count: number): void {
  if (found.length !== count) throw new Error(`a ${kind} search finds ${found.length} records of ${count}`);
  const scores = new Map(model.map(({ id, score }) => [id, score]));
  for (const [i, { id, score }] of found.entries()) {
    const expected = scores.get(id);
    if (expected === undefined || Math.abs(score - expected) > tolerance)
      throw new Error(`a ${kind} search gives '${id}' the score ${score}; it is ${expected}`);
    if (i > 0 && score > found[i - 1].score)
      throw new Error(`a ${kind} search has '${id}' after a worse one`);
  }
}
