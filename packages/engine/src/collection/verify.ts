// Is everything in a collection's store intact and consistent?
//
// The server asks this at every start (quick), and a user with `quiver check` before trusting a copied or doubtful directory (full).
//
// The check reads the store's file with our own reader (storage/lmdb-file.ts), because LMDB trusts its file. There are two depths:
//
//   quick   every page; the checksums of all values except long records and vectors; that ids, documents, records and vectors refer
//           to each other; and that the log and the transactions agree with them. A store must pass this before it may be opened,
//           so that no data is silently missing and nothing crashes.
//   full    also long values, the contents of records, the hashes of versions, and what the open transaction has staged
//
// The check needs five bytes of memory for each ordinal in use, plus the entries of the change log.

import type { Finding } from "@quiverdb/protocol/shapes/check";
import { compareBytes, readU32Key, readU53, text, toHex } from "../base/bytes.ts";
import { LmdbFile, type RawEntry } from "../storage/lmdb-file.ts";
import { verifyFile } from "../storage/lmdb-verify.ts";
import { SpoolFile } from "../storage/spool-files.ts";
import { payloadOf } from "../storage/store.ts";
import type { CollectionDefinition } from "./definition.ts";
import { isKnownFormat, requireKnownFormat } from "./format.ts";
import { decodeHead, type Head } from "./head.ts";
import { decodePlace } from "./place.ts";
import {
  collectionTables,
  declarationOf,
  formatNumbers,
  isWellShaped,
  metaKeys,
  type TableName,
  tables,
} from "./tables.ts";
import { HistoryCheck } from "./verify-history.ts";
import { RecordCheck } from "./verify-records.ts";
import { TransactionCheck } from "./verify-transactions.ts";
import { LogCheck, VersionCheck } from "./verify-versions.ts";

/**
 * Whether the store stays usable in spite of a finding of a quick check: only the value of this one key is damaged, and reading it
 * fails with an error (C1). All other damage could hide or falsify data that is itself intact.
 */
export function isBearable({ kind, table = "", derived }: Finding): boolean {
  return derived === true || (kind === "checksum" && declarationOf(table)?.isBearable === true);
}

export type Depth = "quick" | "full";

/** A summary of the verified store. */
export type Verified = {
  readonly version: number | null;
  readonly records: number;
  readonly versions: number;
  readonly hashesDerived: number;
  /** The collection's definition from its own store; undefined if it is missing or damaged. */
  readonly definition: CollectionDefinition | undefined;
  readonly hash: string | null;
};

export type VerifyOptions = {
  readonly depth: Depth;
  /** The definition from the catalog, if it has one. */
  readonly definition?: CollectionDefinition | undefined;
  onFinding(finding: Finding): void;
  /** Called now and then with the number of entries read since the last call. */
  onProgress?(entries: number): void;
};

const progressEvery = 10_000;

/** Checks a collection's store. @throws format_too_new, format_too_old, or the system's error if the file cannot be opened */
export function verifyCollection(directory: string, options: VerifyOptions): Verified {
  const file = new LmdbFile(directory);
  try {
    requireKnownFormat(file, "collection");
    return new Verification(directory, file, options).run();
  } finally {
    file.close();
  }
}

class Verification {
  readonly #directory: string;
  readonly #file: LmdbFile;
  readonly #options: VerifyOptions;
  readonly #records: RecordCheck;
  readonly #versions: VersionCheck;
  readonly #transactions: TransactionCheck;
  readonly #log: LogCheck;
  readonly #history: HistoryCheck;
  #head: Head | undefined;
  #own: CollectionDefinition | undefined;
  #hasFormat = false;
  readonly #answers = { kept: 0, times: 0, counted: 0 };
  #entries = 0;

  constructor(directory: string, file: LmdbFile, options: VerifyOptions) {
    this.#directory = directory;
    this.#file = file;
    this.#options = options;
    const find = (finding: Finding) => options.onFinding(finding);
    this.#records = new RecordCheck(find, options.definition);
    this.#versions = new VersionCheck(find);
    this.#transactions = new TransactionCheck(find);
    this.#log = new LogCheck(find);
    this.#history = new HistoryCheck(find);
  }

  run(): Verified {
    const { onFinding, depth } = this.#options;
    verifyFile(
      this.#file,
      collectionTables,
      ({ table, page, problem, from, to }) =>
        onFinding({
          kind: "file",
          table,
          ...(page !== undefined && { page }),
          ...(from && { key: toHex(from) }),
          message: `${problem}${rangeOf(from, to)}.`,
        }),
      (table, entry) => this.#entry(table, entry),
    );
    const { commitMarkerProblem } = this.#file;
    if (commitMarkerProblem !== undefined)
      onFinding({
        kind: "file",
        derived: true,
        message: `${commitMarkerProblem}. It is rewritten when the store is opened.`,
      });
    this.#longValues();
    if (depth === "full") this.#contents();
    this.#conclude();
    return {
      version: this.#head?.version ?? null,
      hash: this.#head === undefined ? null : toHex(this.#head.hash),
      records: this.#records.count,
      versions: this.#versions.count,
      hashesDerived: this.#versions.derived,
      definition: this.#own,
    };
  }

  /** An entry of the first walk: short values are checked, long ones only noted. */
  #entry(table: string, { key, stored, isLong }: RawEntry): void {
    this.#count();
    if (!isLong) this.#value(table, key, stored);
    else if (declarationOf(table)?.isBulky) this.#note(table, key);
  }

  #longValues(): void {
    for (const table of collectionTables) {
      if (declarationOf(table)?.isBulky) continue;
      for (const { key, stored, isLong } of this.#file.entries(table))
        if (isLong) this.#value(table, key, stored);
    }
  }

  /** Records and vectors, side by side. */
  #contents(): void {
    // The hashes of a shard's versions are over the changes of all shards.
    const contents = this.#versions.contents(this.#options.definition?.shard === undefined);
    const vectors = this.#file.entries("dense");
    let vector = vectors.next();
    for (const { key, stored, isLong } of this.#file.entries("records")) {
      this.#count();
      for (; !vector.done && compareBytes(vector.value.key, key) < 0; vector = vectors.next())
        this.#vector(vector.value);
      const isOwn = !vector.done && compareBytes(vector.value.key, key) === 0;
      const dense = isOwn && !vector.done ? this.#vector(vector.value) : undefined;
      if (isOwn) vector = vectors.next();
      const body = stored && payloadOf("records", key, stored);
      if (isLong) this.#value("records", key, stored, body);
      if (body === undefined || !tables.records.key.fits(key)) continue;
      const ordinal = readU32Key(key);
      const problem = this.#records.contentProblem(ordinal, body, dense);
      if (!problem) contents.add(ordinal, body, dense);
    }
    for (; !vector.done; vector = vectors.next()) this.#vector(vector.value);
    contents.end();
    for (const table of ["past", "pastDense"])
      for (const { key, stored, isLong } of this.#file.entries(table))
        if (isLong) this.#value(table, key, stored);
  }

  /** A vector of the second walk; undefined if it is damaged. */
  #vector({ key, stored, isLong }: RawEntry): Uint8Array | undefined {
    const body = stored && payloadOf("dense", key, stored);
    if (isLong) this.#value("dense", key, stored, body);
    return body;
  }

  #count(): void {
    if (++this.#entries % progressEvery === 0) this.#options.onProgress?.(progressEvery);
  }

  #value(
    table: string,
    key: Uint8Array,
    stored: Uint8Array | undefined,
    body = stored && payloadOf(table, key, stored),
  ): void {
    if (body === undefined) {
      const problem = stored === undefined ? "cannot be read" : "fails its checksum";
      this.#find("checksum", table, key, `The value of key ${toHex(key)} in table '${table}' ${problem}.`);
      this.#note(table, key);
    } else if (isWellShaped(table, key, body)) this.#checks[table as TableName](key, body);
    else this.#misshapen(table, key);
  }

  /** Notes an entry whose value is damaged or not read yet. */
  #note(table: string, key: Uint8Array): void {
    if (!declarationOf(table)?.key.fits(key)) this.#misshapen(table, key);
    else if (table === "staged") this.#transactions.note(key);
    else if (table === "records" || table === "dense") this.#records.note(table, readU32Key(key));
    else this.#history.note(table, readU32Key(key));
  }

  #misshapen(table: string, key: Uint8Array): void {
    const { kind, misshapen } = declarationOf(table) ?? {};
    if (kind === undefined || misshapen === undefined) return;
    this.#find(kind, table, key, typeof misshapen === "string" ? misshapen : misshapen(key));
  }

  #find(kind: Finding["kind"], table: string, key: Uint8Array, message: string): void {
    const declared = declarationOf(table)?.key;
    const names = declared?.fits(key) && declared.names?.(key);
    this.#options.onFinding({ kind, table, key: toHex(key), ...names, message });
  }

  /** The check for the entries of each table, whose keys and values have the declared shape. */
  readonly #checks: Record<TableName, (key: Uint8Array, body: Uint8Array) => void> = {
    meta: (key, body) => this.#meta(text(key), body),
    ids: (key, body) => this.#records.id(key, body),
    others: (key) => this.#records.other(key),
    documents: (key) => this.#records.document(key),
    records: (key, body) => this.#records.record(readU32Key(key), body),
    dense: (key) => this.#records.note("dense", readU32Key(key)),
    versions: (key, body) => this.#versions.version(key, body),
    closed: (key, body) => this.#versions.closed(key, body),
    recent: (key, body) => this.#log.block(key, body),
    transactions: (key, body) => this.#transactions.transaction(key, body),
    staged: (key, body) => this.#transactions.staged(key, body),
    stagedIds: (key, body) => this.#transactions.stagedId(key, body),
    conditions: (key) => this.#transactions.condition(key),
    indexed: (key) => this.#transactions.indexed(key),
    past: (key, body) => this.#history.past(key, body),
    pastDense: (key) => this.#history.note("pastDense", readU32Key(key)),
    pastIds: (key) => this.#history.id(key),
    // The ids that a version deleted agree with nothing else that is kept.
    gone: () => undefined,
    tags: (key, body) => this.#history.tag(key, body),
    answers: () => this.#answers.kept++,
    answerTimes: () => this.#answers.times++,
  };

  #meta(key: string, body: Uint8Array): void {
    const bad = (message: string) => this.#options.onFinding({ kind: "collection", table: "meta", message });
    try {
      if (key === text(metaKeys.head)) this.#head = decodeHead(body);
      else if (key === text(metaKeys.format)) {
        const { format, what } = JSON.parse(text(body)) as { format: number; what: string };
        this.#hasFormat = true;
        if (!isKnownFormat(format) || what !== "collection")
          bad(
            `The store is a ${what} of format ${format}; expected a collection of format ${formatNumbers.collection}.`,
          );
      } else if (key === text(metaKeys.definition))
        this.#own = JSON.parse(text(body)) as CollectionDefinition;
      else if (key === text(metaKeys.indexes)) JSON.parse(text(body));
      else if (key === text(metaKeys.recent)) this.#log.latest(body);
      else if (key === text(metaKeys.place)) decodePlace(body);
      else if (key === text(metaKeys.answers)) this.#answers.counted = readU53(body);
      else if (key === text(metaKeys.history)) {
        JSON.parse(text(body));
        this.#history.history();
      } else bad(`There is a key '${key}', which does not exist.`);
    } catch (error) {
      bad(`The entry '${key}' cannot be read: ${(error as Error).message}`);
    }
  }

  /** The spool of the open transaction: only its length, or all operations. */
  #spool({ openTransaction }: Head): void {
    if (openTransaction === 0) return;
    const spool = new SpoolFile(this.#directory, openTransaction);
    try {
      const problem = this.#transactions.spoolProblem(openTransaction, spool, this.#options.depth);
      // The transaction of a running server may have ended since, and its spool with it.
      if (problem === undefined || openTransactionIn(this.#directory) !== openTransaction) return;
      this.#options.onFinding({ kind: "checksum", table: "staged", message: problem });
    } finally {
      spool.close();
    }
  }

  #conclude(): void {
    const { onFinding, definition } = this.#options;
    const head = this.#head;
    const { kept, times, counted } = this.#answers;
    if (kept !== times || kept !== counted)
      onFinding({
        kind: "collection",
        table: "answers",
        message: `${kept} answers to writes with a key are kept, with ${times} times, and ${counted} are counted.`,
      });
    if (!this.#hasFormat)
      onFinding({ kind: "collection", table: "meta", message: "The store has no format number." });
    if (head === undefined)
      onFinding({
        kind: "collection",
        table: "meta",
        message: "The store has no head: its version is not known.",
      });
    if (this.#own !== undefined && definition !== undefined && !isSame(this.#own, definition))
      onFinding({
        kind: "collection",
        table: "meta",
        message: "The collection's own definition is not that of the catalog.",
      });
    if (head === undefined) return;
    this.#records.conclude(head, this.#versions);
    this.#versions.conclude(head, this.#records);
    this.#transactions.conclude(head);
    this.#spool(head);
    this.#log.conclude(head);
    this.#history.conclude(head, this.#records);
  }
}

/** The number of the open transaction, as the file says at this moment. */
function openTransactionIn(directory: string): number | undefined {
  const file = new LmdbFile(directory);
  try {
    const body = file.get("meta", metaKeys.head);
    return body && decodeHead(body).openTransaction;
  } finally {
    file.close();
  }
}

function isSame(a: CollectionDefinition, b: CollectionDefinition): boolean {
  const sorted = (value: CollectionDefinition) => JSON.stringify(Object.entries(value).sort());
  return sorted(a) === sorted(b);
}

function rangeOf(from: Uint8Array | undefined, to: Uint8Array | undefined): string {
  if (from === undefined && to === undefined) return "";
  const [low, high] = [from && toHex(from), to && toHex(to)];
  return low === high ? ` (key ${low})` : ` (keys from ${low ?? "the first"} to ${high ?? "the last"})`;
}
