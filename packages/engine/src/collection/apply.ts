// How does a log entry become the next state of a collection?
//
//   state, entry ---> next state       in one durable store write
//
// The next state depends only on the current state and the entry. Applying uses no clock, no randomness, and no knowledge of who sent
// a request or when. So the same entries in the same order make the same state on every machine. An entry that changes records
// makes a version.
//
//   - Entries are numbered from 1 without gaps. The store write that applies an entry also stores its number in the head and its opId in
//     `recent` (recent-entries.ts).
//   - An entry is applied as a whole or not at all. Its operations were accepted (accept.ts) in the state in which they are applied.
//   - State that is local to a node is in no entry: which versions it keeps, and how far its indexes are.
//
// Entries are made by the trial of the sequencer (log/sequencer.ts), of the requests of a node alone or of a replicated log.

import type {
  IndexDefinition,
  IndexDefinitions,
  IndexKind,
} from "@quiverdb/protocol/shapes/index-definition";
import { compareBytes, emptyBytes, readU32Key, text, utf8 } from "../base/bytes.ts";
import { failpoint } from "../base/failpoint.ts";
import { invariant } from "../base/invariant.ts";
import type { Reader, Writer } from "../storage/store.ts";
import { Change } from "./change.ts";
import { type Head, writeHead } from "./head.ts";
import {
  deleteTag,
  denseAt,
  type HistoryPolicy,
  keptEntry,
  type PastRecord,
  pastRecord,
  pastRecords,
  putTag,
  setPolicy,
  vacuum,
} from "./history.ts";
import { remember } from "./recent-entries.ts";
import { operationBytes, RecordReader, readOperations } from "./record.ts";
import { exists, type Shard } from "./shard.ts";
import { applyStaged, stage } from "./staging.ts";
import { metaKeys, ordinalKey } from "./tables.ts";
import * as transactions from "./transaction.ts";
import type { VersionEntry } from "./versions.ts";

export type { IndexDefinitions };

/** One change of a collection. A batch holds operations on records (record.ts). A definition has all defaults filled in. */
export type LogOperation =
  | { kind: "upsert"; batch: Uint8Array }
  | { kind: "delete"; batch: Uint8Array }
  /** Upserts and deletes. */
  | { kind: "change"; batch: Uint8Array }
  | { kind: "begin"; transactionId: string }
  | { kind: "stage"; transactionId: string; batch: Uint8Array }
  /** Makes a separate version, so no other operation of its entry changes records. */
  | { kind: "commit"; transactionId: string }
  | { kind: "abort"; transactionId: string }
  | { kind: "fail"; transactionId: string; message: string }
  | { kind: "createIndex"; index: IndexKind; definition: IndexDefinition }
  | { kind: "deleteIndex"; index: IndexKind }
  | HistoryOperation;

/** What concerns earlier versions (history.ts). */
export type HistoryOperation =
  | { kind: "setHistory"; policy: HistoryPolicy | null }
  | { kind: "putTag"; name: string; version: number }
  | { kind: "deleteTag"; name: string }
  /** Removes some of what no readable version needs. */
  | { kind: "vacuum" }
  /** Gives the collection the records that it had at a version. */
  | { kind: "restoreVersion"; version: number };

/** The identity of an entry. */
export type EntryName = {
  /** From 1, without gaps. */
  sequence: number;
  /** Counts the changes of who orders entries; 0 in a log that was always local. Never falls. */
  epoch: number;
  /** 32 random hex characters. An entry that is ordered twice keeps its opId. */
  opId: string;
};

/** The application of one entry inside one store write. */
export class Application {
  readonly #writer: Writer;
  readonly #timeMs: number;
  readonly #versionsKept: number;
  readonly #shard: Shard | undefined;
  readonly #versionBefore: number;
  /** The new version. The first operation that changes records creates it. */
  #change: Change | null = null;
  /** The definitions after the operations applied so far; `finish` stores them. */
  readonly head: Head;

  /** @param head the one in the store; it is changed in place. @param shard whose records the store keeps; undefined: all */
  constructor(writer: Writer, head: Head, timeMs: number, versionsKept: number, shard?: Shard) {
    invariant(Number.isSafeInteger(timeMs) && timeMs >= 0, `an entry has the time ${timeMs}`);
    this.#writer = writer;
    this.head = head;
    this.#versionBefore = head.version;
    this.#timeMs = timeMs;
    this.#versionsKept = versionsKept;
    this.#shard = shard;
  }

  /** The version that is current when the entry is finished, as far as it is applied. */
  get version(): number {
    return this.#change?.version ?? this.head.version;
  }

  /** Applies one operation. @returns the transaction that it began or ended */
  apply(operation: LogOperation): transactions.TransactionEntry | null {
    switch (operation.kind) {
      case "upsert":
        return this.#upsert(operation.batch);
      case "delete":
        return this.#delete(operation.batch);
      case "change":
        for (const each of readOperations(operation.batch))
          if (each.kind === "upsert") this.#changing.upsert(each);
          else this.#changing.delete(each.id);
        return null;
      case "begin":
        return transactions.begin(this.#writer, this.head, this.#timeMs, operation.transactionId);
      case "stage":
        return this.#stage(operation.transactionId, operation.batch);
      case "commit":
        return this.#commit(operation.transactionId);
      case "abort":
        return this.#end(operation.transactionId, { state: "aborted", updatedMs: this.#timeMs });
      case "fail":
        return this.#end(operation.transactionId, { state: "failed", message: operation.message });
      case "createIndex":
        return this.#createIndex(operation.index, operation.definition);
      case "deleteIndex":
        return this.#deleteIndex(operation.index);
      case "setHistory":
        setPolicy(this.#writer, this.head, operation.policy);
        return null;
      case "putTag":
        putTag(this.#writer, this.head, operation.name, this.#entryOf(operation.version));
        return null;
      case "deleteTag":
        deleteTag(this.#writer, operation.name);
        return null;
      case "vacuum":
        vacuum(this.#writer, this.head, this.#timeMs);
        return null;
      case "restoreVersion":
        return this.#restore(this.#entryOf(operation.version));
    }
  }

  /** Stores the identity of the entry and the head. Must be the last call. */
  finish({ sequence, epoch, opId }: EntryName): void {
    const { head } = this;
    invariant(sequence === head.sequence + 1, `entry ${sequence} does not follow entry ${head.sequence}`);
    invariant(
      epoch >= head.epoch,
      `entry ${sequence} has epoch ${epoch}, but the previous one has ${head.epoch}`,
    );
    remember(this.#writer, sequence, opId);
    head.sequence = sequence;
    head.epoch = epoch;
    if (this.#change) this.#change.publish(this.#timeMs, this.#versionsKept);
    else writeHead(this.#writer, head);
    const isNext = head.version === this.#versionBefore + (this.#change ? 1 : 0);
    invariant(isNext, `entry ${sequence} leads from version ${this.#versionBefore} to ${head.version}`);
  }

  get #changing(): Change {
    this.#change ??= new Change(this.#writer, this.head, this.#shard);
    return this.#change;
  }

  #exists = (id: Uint8Array): boolean => exists(this.#writer, id);

  #upsert(batch: Uint8Array): null {
    invariant(batch.length > 0, "an upsert has no record");
    for (const operation of readOperations(batch)) {
      invariant(operation.kind === "upsert", "a streaming upsert carries a delete");
      this.#changing.upsert(operation);
    }
    return null;
  }

  #delete(batch: Uint8Array): null {
    invariant(batch.length > 0, "a delete names no record");
    for (const { id } of readOperations(batch))
      invariant(this.#changing.delete(id), "a record to delete does not exist");
    return null;
  }

  #open(id: string): transactions.TransactionEntry {
    const entry = transactions.readTransaction(this.#writer, id);
    invariant(entry.state === "open", `the transaction '${id}' is ${entry.state}, not open`);
    return entry;
  }

  #stage(id: string, batch: Uint8Array): null {
    stage(this.#writer, this.#open(id), batch, this.#timeMs, this.#exists);
    return null;
  }

  #commit(id: string): transactions.TransactionEntry {
    const entry = this.#open(id);
    invariant(this.#change === null, "a commit shares its version");
    const change = this.#changing;
    failpoint("commit:begin");
    applyStaged(this.#writer, entry, change);
    failpoint("commit:applied");
    transactions.end(this.#writer, this.head, entry, {
      state: "committed",
      committedMs: this.#timeMs,
      updatedMs: this.#timeMs,
      version: change.version,
    });
    failpoint("commit:ended");
    return entry;
  }

  #end(
    id: string,
    ended: Parameters<typeof transactions.end>[3] & { state: "aborted" | "failed" },
  ): transactions.TransactionEntry {
    const entry = this.#open(id);
    transactions.end(this.#writer, this.head, entry, { ...ended, endedMs: this.#timeMs });
    return entry;
  }

  #entryOf(version: number): VersionEntry {
    const entry = keptEntry(this.#writer, version);
    invariant(entry !== undefined, `version ${version} is not in the log`);
    return entry;
  }

  /** Past records of the version are written again where they differ, and what it did not have is deleted. Other records stay. */
  #restore(entry: VersionEntry): null {
    const writer = this.#writer;
    const end = entry.firstOrdinal + entry.opened;
    const newer = Array.from(writer.keys("records", { start: ordinalKey(end) }), (key) => readU32Key(key));
    const again: number[] = [];
    for (const { ordinal, died } of pastRecords(writer, 0, end))
      if (died > entry.version) again.push(ordinal);
    /** Live records that are as they were. */
    const same = new Set<number>();
    for (const ordinal of again) {
      const record = (pastRecord(writer, ordinal) as PastRecord).record.slice();
      const { idBytes: id, contents, content } = new RecordReader(record);
      const dense = contents.dense ? denseAt(writer, { ordinal, record, isPast: true }).slice() : emptyBytes;
      const live = this.#liveAs(id, record, dense);
      if (live !== undefined) {
        same.add(live);
        continue;
      }
      const upsert = { kind: "upsert", id, content, dense } as const;
      this.#changing.upsert({ ...upsert, bytes: operationBytes(upsert) });
    }
    for (const ordinal of newer) {
      const record = same.has(ordinal) ? undefined : writer.get("records", ordinalKey(ordinal))?.slice();
      // Otherwise it was replaced just now.
      if (record !== undefined) this.#changing.delete(new RecordReader(record).idBytes);
    }
    return null;
  }

  /** The ordinal of the live record of an id, if it has this content. */
  #liveAs(id: Uint8Array, record: Uint8Array, dense: Uint8Array): number | undefined {
    const writer = this.#writer;
    const key = writer.get("ids", id)?.slice();
    const live = key && writer.get("records", key);
    const bornBytes = 8;
    if (
      key === undefined ||
      live === undefined ||
      compareBytes(live.subarray(bornBytes), record.subarray(bornBytes)) !== 0
    )
      return undefined;
    const isSame = dense.length === 0 || compareBytes(writer.get("dense", key) ?? emptyBytes, dense) === 0;
    return isSame ? readU32Key(key) : undefined;
  }

  #createIndex(kind: IndexKind, definition: IndexDefinition): null {
    const definitions = readIndexDefinitions(this.#writer);
    invariant(definitions[kind] === undefined, `the ${kind} index is created twice`);
    return this.#writeDefinitions({ ...definitions, [kind]: definition });
  }

  #deleteIndex(kind: IndexKind): null {
    const { [kind]: deleted, ...rest } = readIndexDefinitions(this.#writer);
    invariant(deleted !== undefined, `the ${kind} index to delete does not exist`);
    return this.#writeDefinitions(rest);
  }

  #writeDefinitions(definitions: IndexDefinitions): null {
    this.#writer.put("meta", metaKeys.indexes, utf8(JSON.stringify(definitions)));
    return null;
  }
}

/** Definitions of the collection's indexes, as they were created. */
export function readIndexDefinitions(reader: Reader): IndexDefinitions {
  const bytes = reader.get("meta", metaKeys.indexes);
  return bytes ? (JSON.parse(text(bytes)) as IndexDefinitions) : {};
}

/**
 * Reads the definitions for searches. Parses them only after a change, because a list of stop words can be long. Callers share the
 * result and must not change it.
 */
export class IndexDefinitionsReader {
  #bytes = new Uint8Array(0);
  #definitions: Readonly<IndexDefinitions> = {};

  read(reader: Reader): Readonly<IndexDefinitions> {
    const bytes = reader.get("meta", metaKeys.indexes);
    if (bytes === undefined) return {};
    if (compareBytes(bytes, this.#bytes) !== 0) {
      this.#definitions = JSON.parse(text(bytes)) as IndexDefinitions;
      this.#bytes = Uint8Array.from(bytes);
    }
    return this.#definitions;
  }
}
