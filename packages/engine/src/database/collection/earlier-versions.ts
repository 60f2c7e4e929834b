// How is a collection read as it was, and what is done with its earlier versions?
//
// A version that is current is read as always; if something was written meanwhile, and of earlier versions, its copy is read (past-versions.ts).
// What needs no index is read from the collection's own store: single records, exports, differences, the history of a record.

import { QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import type { Tag, Version } from "@quiverdb/protocol/shapes/version";
import { compareText, readU32Key, toHex, utf8 } from "../../base/bytes.ts";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import type { Steps } from "../../base/steps.ts";
import { readIndexDefinitions } from "../../collection/apply.ts";
import { historyPolicy } from "../../collection/definition.ts";
import { readHead } from "../../collection/head.ts";
import {
  checkTagName,
  type HistoryPolicy,
  isVacuumable,
  pastOfId,
  pastRecords,
  readHistory,
  readTag,
  recordOfId,
  recordsAt,
  type StoredAt,
  storedAt,
  versionAt,
  type When,
} from "../../collection/history.ts";
import { type StoredVector, vectorNotFound, vectorOf } from "../../collection/reading.ts";
import { RecordReader } from "../../collection/record.ts";
import { checkId } from "../../collection/schema.ts";
import { ordinalKey } from "../../collection/tables.ts";
import { type VersionEntry, versionNumbered } from "../../collection/versions.ts";
import { timesOf, withTimes } from "../../filter/filter.ts";
import { Predicate } from "../../filter/predicate.ts";
import { readFilter } from "../../filter/read-filter.ts";
import type { ReadTransaction } from "../../storage/store.ts";
import type { Collection, LineExport, PastCollection, StoredHistory } from "../contract.ts";
import type { Records } from "./records.ts";
import type { CollectionState } from "./state.ts";
import type { Writes } from "./writes.ts";

/** Records that are read in one step. */
const recordsPerStep = 64;

export class EarlierVersions {
  readonly #state: CollectionState;
  readonly #records: Records;
  readonly #writes: Writes;
  readonly #calls: () => Collection;
  #mayHaveHistory = true;

  /** @param calls of the collection as it is */
  constructor(state: CollectionState, records: Records, writes: Writes, calls: () => Collection) {
    this.#state = state;
    this.#records = records;
    this.#writes = writes;
    this.#calls = calls;
  }

  at(when: When): PastCollection {
    const use = <T>(act: (calls: Collection) => Promise<T>): Promise<T> => this.#use(when, act);
    return {
      get: async (id) => this.#get(id, when),
      has: async (id) => this.#has(id, when),
      exportMatching: (request, options) => this.#export(when, request, options),
      eachOfDocument: async (document, take, options) => {
        const vectors = await use((calls) => calls.byDocument(document, options));
        for (const vector of vectors) take(vector as StoredVector);
      },
      count: (request, options) => use((calls) => calls.count(request, options)),
      facet: (request, options) => use((calls) => calls.facet(request, options)),
      scroll: (request, options, reader) => use((calls) => calls.scroll(request, options, reader)),
      fetch: (request, options) => use((calls) => calls.fetch(request, options)),
      search: (kind, request, options) => use((calls) => calls.search(kind, request, options)),
    };
  }

  /** Reads the newest state: tags and how far back versions are readable belong to no version. */
  #read<T>(read: (readTxn: ReadTransaction) => T): T {
    return this.#state.read((readTxn) => read(readTxn));
  }

  #entryAt(readTxn: ReadTransaction, when: When): VersionEntry {
    const entry = versionAt(readTxn, when, this.#state.dependencies.clock());
    // A version that was returned once is visible to every later read.
    this.#state.markSeen(entry.version);
    return entry;
  }

  /** The version that is asked for; without, the current one. */
  entryAt(when: When): VersionEntry {
    return this.#read((readTxn) => {
      const isAny = when.version == null && when.as_of == null;
      return this.#entryAt(readTxn, isAny ? { version: readHead(readTxn).version } : when);
    });
  }

  async #use<T>(when: When, act: (calls: Collection) => Promise<T>): Promise<T> {
    return this.#state.gate.pass(async () => {
      const entry = this.#read((readTxn) => this.#entryAt(readTxn, when));
      const isCurrent = () => this.#state.readServed((_, head) => head.version === entry.version);
      if (isCurrent()) {
        const found = await act(this.#calls());
        if (isCurrent()) return found;
      }
      return this.#state.dependencies.atVersion(this.#state.entry, entry, act);
    });
  }

  #find<T>(id: string, when: When, take: (readTxn: ReadTransaction, found: StoredAt | undefined) => T): T {
    checkId(id, "vector_id");
    return this.#read((readTxn) =>
      take(readTxn, recordOfId(readTxn, utf8(id), this.#entryAt(readTxn, when))),
    );
  }

  #get(id: string, when: When): StoredVector {
    return this.#find(id, when, (readTxn, found) => {
      if (found === undefined) throw vectorNotFound(id);
      return vectorOf(readTxn, found);
    });
  }

  #has(id: string, when: When): boolean {
    return this.#find(id, when, (_, found) => found !== undefined);
  }

  #export: (
    when: When,
    request: Parameters<Collection["exportMatching"]>[0],
    options?: CallOptions,
  ) => ReturnType<Collection["exportMatching"]> = (when, request, options) =>
    this.#state.gate.pass(async () => {
      refuseUnknownOptions(request, ["filter"]);
      const { task } = Deadline.of(options);
      const filter = await task.finish(readFilter(request.filter));
      const readTxn = this.#state.store.beginRead();
      try {
        const entry = this.#entryAt(readTxn, when);
        const predicate = filter && new Predicate(withTimes(filter, timesOf(readIndexDefinitions(readTxn))));
        const matches = (record: Uint8Array) =>
          predicate === null || predicate.matches(new RecordReader(record));
        const count =
          predicate === null ? entry.live : await task.finish(countIn(recordsAt(readTxn, entry), matches));
        this.#state.gate.assertOpen();
        return this.#records.export(() => readTxn.release(), {
          version: entry.version,
          count,
          lines: vectorsIn(readTxn, recordsAt(readTxn, entry), matches),
        });
      } catch (error) {
        readTxn.release();
        throw error;
      }
    });

  diff(from: When, to: When, options?: CallOptions): Promise<LineExport> {
    return this.#state.gate.pass(async () => {
      const readTxn = this.#state.store.beginRead();
      try {
        const [before, after] = [this.#entryAt(readTxn, from), this.#entryAt(readTxn, to)];
        const changes = await Deadline.of(options).task.finish(changesBetween(readTxn, before, after));
        this.#state.gate.assertOpen();
        const { version } = after;
        return this.#records.export(() => readTxn.release(), {
          version,
          // Lines: one for each, and one for their numbers.
          count: changes.length + 1,
          lines: linesOf(readTxn, changes, after),
        });
      } catch (error) {
        readTxn.release();
        throw error;
      }
    });
  }

  history(id: string): StoredHistory {
    checkId(id, "vector_id");
    return this.#read((readTxn) => {
      const states: StoredHistory["states"] = [];
      const key = utf8(id);
      for (const { ordinal, died, record } of pastOfId(readTxn, key))
        states.unshift({
          version: new RecordReader(record).born,
          until: died,
          vector: vectorOf(readTxn, { ordinal, record, isPast: true }),
        });
      const named = readTxn.get("ids", key)?.slice();
      const live = named && readTxn.get("records", named)?.slice();
      if (named !== undefined && live !== undefined)
        states.unshift({
          version: new RecordReader(live).born,
          until: null,
          vector: vectorOf(readTxn, { ordinal: readU32Key(named), record: live, isPast: false }),
        });
      if (states.length === 0) throw vectorNotFound(id);
      return { id, states };
    });
  }

  async setHistory(given: HistoryPolicy | null, options?: CallOptions): Promise<void> {
    const policy = historyPolicy(given);
    await this.#writes.write({ kind: "setHistory", policy }, Deadline.of(options));
    this.mayHaveHistory();
  }

  get policy(): HistoryPolicy | undefined {
    return this.#read((readTxn) => readHistory(readTxn)?.policy ?? undefined);
  }

  /** Without a version: of the current one. */
  async putTag(name: string, when: When, options?: CallOptions): Promise<Tag> {
    checkTagName(name);
    const { version } = this.entryAt(when);
    await this.#writes.write({ kind: "putTag", name, version }, Deadline.of(options));
    this.mayHaveHistory();
    const put = this.#read((readTxn) => readTag(readTxn, name));
    // It may have been deleted since.
    const entry = put ?? this.entryAt(when);
    return { name, version: entry.version, hash: toHex(entry.hash) };
  }

  async deleteTag(name: string, options?: CallOptions): Promise<void> {
    await this.#writes.write({ kind: "deleteTag", name }, Deadline.of(options));
  }

  restoreVersion(when: When, options?: CallOptions): Promise<Version> {
    return this.#state.gate.pass(async () => {
      const { version, live } = this.#read((readTxn) => this.#entryAt(readTxn, when));
      const what = `Restoring version ${version}`;
      const request = { kind: "restoreVersion", version } as const;
      const written = await this.#writes.writeRecords(
        request,
        what,
        { records: live, bytes: 0 },
        Deadline.of(options),
      );
      return this.#read((readTxn) => versionNumbered(readTxn, written.version));
    });
  }

  /** Removes what nobody can read any more, in several writes. */
  async vacuum(): Promise<void> {
    if (!this.#mayHaveHistory) return;
    const isNeeded = () =>
      this.#state.isOpen &&
      this.#state.read((readTxn) => {
        this.#mayHaveHistory = readHistory(readTxn) !== undefined;
        return isVacuumable(readTxn, this.#state.dependencies.clock());
      });
    while (isNeeded()) await this.#writes.write({ kind: "vacuum" });
  }

  /** It may have got a history: from now on it is looked at. Most collections have none, and a look takes a read transaction. */
  mayHaveHistory(): void {
    this.#mayHaveHistory = true;
  }
}

function* countIn(records: Iterable<StoredAt>, matches: (record: Uint8Array) => boolean): Steps<number> {
  let count = 0;
  let read = 0;
  for (const { record } of records) {
    if (matches(record)) count++;
    if (++read % recordsPerStep === 0) yield;
  }
  return count;
}

function* vectorsIn(
  readTxn: ReadTransaction,
  records: Iterable<StoredAt>,
  matches: (record: Uint8Array) => boolean,
): Generator<StoredVector> {
  for (const stored of records) if (matches(stored.record)) yield vectorOf(readTxn, stored);
}

// ---- What differs between two versions?

export type VersionChange = {
  readonly op: "added" | "changed" | "removed";
  readonly id: string;
  /** Of the record at the later version; undefined if it is removed. */
  readonly ordinal: number | undefined;
  /** At the earlier version; undefined if it is added. */
  readonly before: number | undefined;
};

/** In order of id. */
export function* changesBetween(
  readTxn: ReadTransaction,
  from: VersionEntry,
  to: VersionEntry,
): Steps<readonly VersionChange[]> {
  const [fromIds, toIds] = [new Map<string, number>(), new Map<string, number>()];
  const endOf = ({ firstOrdinal, opened }: VersionEntry) => firstOrdinal + opened;
  const least = Math.min(endOf(from), endOf(to));
  let read = 0;
  const note = (ordinal: number, record: Uint8Array, died: number) => {
    const has = (entry: VersionEntry) => ordinal < endOf(entry) && entry.version < died;
    const [atFrom, atTo] = [has(from), has(to)];
    if (atFrom === atTo) return;
    (atFrom ? fromIds : toIds).set(new RecordReader(record).id, ordinal);
  };
  for (const { ordinal, died, record } of pastRecords(readTxn)) {
    note(ordinal, record, died);
    if (++read % recordsPerStep === 0) yield;
  }
  for (const [key, record] of readTxn.entries("records", { start: ordinalKey(least) })) {
    note(readU32Key(key), record, Number.POSITIVE_INFINITY);
    if (++read % recordsPerStep === 0) yield;
  }
  const changes: VersionChange[] = [];
  for (const [id, ordinal] of toIds) {
    const before = fromIds.get(id);
    changes.push({ op: before === undefined ? "added" : "changed", id, ordinal, before });
  }
  for (const [id, before] of fromIds)
    if (!toIds.has(id)) changes.push({ op: "removed", id, ordinal: undefined, before });
  return changes.sort((a, b) => compareText(a.id, b.id));
}

/** How many there are of each kind, then each. */
function* linesOf(
  readTxn: ReadTransaction,
  changes: readonly VersionChange[],
  to: VersionEntry,
): Generator<{ readonly id?: string; toJson(): string }> {
  const counts = { added: 0, changed: 0, removed: 0 };
  for (const { op } of changes) counts[op]++;
  yield { toJson: () => JSON.stringify(counts) };
  for (const { op, id, ordinal } of changes) {
    const vector = ordinal === undefined ? undefined : vectorAt(readTxn, ordinal, to);
    const told = `"op":"${op}","id":${JSON.stringify(id)}`;
    yield {
      id,
      toJson: () => (vector === undefined ? `{${told}}` : `{${told},"vector":${vector.toJson()}}`),
    };
  }
}

/** The vector of an ordinal that a version has. */
function vectorAt(readTxn: ReadTransaction, ordinal: number, { version }: VersionEntry): StoredVector {
  const stored = storedAt(readTxn, ordinal);
  if (stored !== undefined) return vectorOf(readTxn, stored);
  throw new QuiverError(
    "data_corrupted",
    `The record of ordinal ${ordinal} of version ${version} is missing.`,
    { ordinal, version },
  );
}
