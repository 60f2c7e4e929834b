// How does a set of changes become the next version?
//
// A `Change` lives inside one store write. It assigns ordinals in order, closes records that are replaced or deleted, and publishes the
// version by writing the head last. It asserts these invariants:
//
//   - an ordinal names one record content and is never used twice (1);
//   - born(o) is this version for every ordinal it opens, and died(o) this version for every one it closes (2);
//   - one version, one write: either all of it is in the store or nothing (3).
//
// Memory does not grow with the number of changes: records go straight to the store, and closed ordinals are written in parts.

import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { ByteWriter, readU32Key, u53Key } from "../base/bytes.ts";
import { failpoint } from "../base/failpoint.ts";
import { host, type Sha256 } from "../base/host.ts";
import { invariant } from "../base/invariant.ts";
import type { Writer } from "../storage/store.ts";
import { type Head, writeHead } from "./head.ts";
import { type History, isKept, keepPast, keptOf, readHistory } from "./history.ts";
import {
  type Contents,
  contentsOf,
  type Encoded,
  operationBytes,
  RecordReader,
  storedRecord,
  type UpsertOperation,
} from "./record.ts";
import { deleteDamaged, deleteRecord, putRecord } from "./record-entries.ts";
import { keeps, type Shard } from "./shard.ts";
import { ordinalKey } from "./tables.ts";
import {
  closedPerPart,
  goneBytesPerPart,
  trimVersions,
  writeClosed,
  writeGone,
  writeVersion,
} from "./versions.ts";

export class Change {
  readonly #writer: Writer;
  readonly #head: Head;
  readonly #version: number;
  readonly #firstOrdinal: number;
  readonly #hash: Sha256;
  /** Closed ordinals that are not written yet. Starts small, because most changes close few records, and grows up to one part. */
  #closed = new Uint32Array(16);
  #closedCount = 0;
  #closedParts = 0;
  /** Ids of deleted records that are not written yet. */
  readonly #gone = new ByteWriter(64);
  #goneParts = 0;
  #published = false;
  /** Live records before this version, and records that it has closed. */
  readonly #liveBefore: number;
  #closedTotal = 0;
  readonly #history: History | undefined;
  readonly #shard: Shard | undefined;

  /**
   * @param head the head of the previous version; changed in place, and written by `publish`
   * @param shard whose records the store keeps; undefined: all
   */
  constructor(writer: Writer, head: Head, shard?: Shard) {
    this.#writer = writer;
    this.#head = head;
    this.#version = head.version + 1;
    this.#firstOrdinal = head.nextOrdinal;
    this.#liveBefore = head.live;
    this.#hash = host.sha256().update(head.hash);
    this.#history = readHistory(writer);
    this.#shard = shard;
  }

  get version(): number {
    return this.#version;
  }

  /** Creates or replaces a record. @throws storage_full when there are no ordinals left */
  upsert(operation: Encoded<UpsertOperation>): void {
    this.#hash.update(operation.bytes);
    if (!keeps(this.#shard, operation.id)) {
      this.#writer.put("others", operation.id, u53Key(this.#version));
      return;
    }
    const ordinal = this.#head.nextOrdinal;
    if (ordinal > limits.ordinalMax)
      throw new QuiverError(
        "storage_full",
        `The collection has used all ${limits.ordinalMax} ordinals of its generation. Export it and import it into a new collection.`,
      );
    const contents = contentsOf(operation.content);
    invariant(
      contents.dense === operation.dense.length > 0,
      () => `the flags of ordinal ${ordinal} disagree with its vector of ${operation.dense.length} bytes`,
    );
    this.#close(operation.id);
    this.#head.nextOrdinal = ordinal + 1;
    putRecord(this.#writer, ordinal, storedRecord(operation, this.#version), operation.dense);
    this.#count(contents, 1);
  }

  /** Deletes a record; false, and no change, when there is none. */
  delete(id: Uint8Array): boolean {
    if (keeps(this.#shard, id)) {
      if (!this.#close(id)) return false;
      this.#writer.delete("ids", id);
      this.#noteGone(id);
    } else if (!this.#writer.delete("others", id)) return false;
    this.#hash.update(operationBytes({ kind: "delete", id }));
    return true;
  }

  #count(contents: Contents, by: 1 | -1): void {
    const head = this.#head;
    head.live += by;
    if (contents.dense) head.dense += by;
    if (contents.sparse) head.sparse += by;
    if (contents.text) head.text += by;
  }

  /** Closes the live record of an id, if there is one. The caller updates its `ids` entry. */
  #close(id: Uint8Array): boolean {
    const writer = this.#writer;
    const found = writer.get("ids", id);
    if (found === undefined) return false;
    const ordinal = readU32Key(found);
    invariant(
      ordinal < this.#head.nextOrdinal,
      () => `an id has ordinal ${ordinal}, and the next one to be given is ${this.#head.nextOrdinal}`,
    );
    const stored = this.#stored(ordinalKey(ordinal));
    if (stored === undefined) {
      closeDamaged(writer, this.#head, ordinal);
      this.#noteClosed(ordinal);
      return true;
    }
    const record = new RecordReader(stored);
    invariant(
      record.born <= this.#version,
      () => `ordinal ${ordinal} is born at ${record.born} and dies at ${this.#version}`,
    );
    this.#count(record.contents, -1);
    // What is born and dies with one version was never seen.
    if (record.born < this.#version && isKept(this.#history, record.born)) {
      const own = stored.slice();
      keepPast(writer, ordinal, this.#version, own);
      deleteRecord(writer, ordinal, new RecordReader(own));
    } else deleteRecord(writer, ordinal, record);
    this.#noteClosed(ordinal);
    return true;
  }

  /** The record of a key; undefined if it is damaged or missing. */
  #stored(key: Uint8Array): Uint8Array | undefined {
    try {
      return this.#writer.get("records", key);
    } catch (error) {
      if (isQuiverError(error, "data_corrupted")) return undefined;
      throw error;
    }
  }

  #noteGone(id: Uint8Array): void {
    this.#gone.u16(id.length);
    this.#gone.bytes(id);
    if (this.#gone.length >= goneBytesPerPart) this.#flushGone();
  }

  #flushGone(): void {
    if (this.#gone.length > 0) writeGone(this.#writer, this.#version, this.#goneParts++, this.#gone.take());
  }

  #noteClosed(ordinal: number): void {
    if (this.#closedCount === this.#closed.length) {
      const larger = new Uint32Array(2 * this.#closed.length);
      larger.set(this.#closed);
      this.#closed = larger;
    }
    this.#closed[this.#closedCount++] = ordinal;
    this.#closedTotal++;
    if (this.#closedCount === closedPerPart) this.#flushClosed();
  }

  #flushClosed(): void {
    if (this.#closedCount === 0) return;
    writeClosed(this.#writer, this.#version, this.#closedParts++, this.#closed.slice(0, this.#closedCount));
    this.#closedCount = 0;
  }

  /** Writes the version's entry in the change log, and the head. Must be the last call. */
  publish(createdMs: number, versionsKept: number): void {
    invariant(!this.#published, "a version is published twice");
    this.#published = true;
    const head = this.#head;
    invariant(head.version === this.#version - 1, "another version was published meanwhile");
    invariant(
      head.live >= 0 && head.dense <= head.live && head.sparse <= head.live && head.text <= head.live,
      `of ${head.live} live records, ${head.dense} are dense, ${head.sparse} sparse and ${head.text} texts`,
    );
    const opened = head.nextOrdinal - this.#firstOrdinal;
    invariant(
      head.live === this.#liveBefore + opened - this.#closedTotal,
      `${this.#liveBefore} live records, ${opened} opened and ${this.#closedTotal} closed do not make ${head.live}`,
    );
    failpoint("publish:begin");
    this.#flushClosed();
    this.#flushGone();
    invariant(this.#closedCount === 0, `${this.#closedCount} closed ordinals are not in the log`);
    head.version = this.#version;
    head.hash = this.#hash.digest();
    writeVersion(this.#writer, {
      version: head.version,
      hash: head.hash,
      createdMs,
      live: head.live,
      firstOrdinal: this.#firstOrdinal,
      opened,
    });
    failpoint("publish:logged");
    trimVersions(this.#writer, head.version, keptOf(this.#history, head.version, versionsKept));
    failpoint("publish:trimmed");
    writeHead(this.#writer, head);
  }
}

// ---- How does a change close a record that is unreadable?
//
// Only the id and the ordinal of such a record are known. So the code searches for its entry in the table of documents, and counts
// the readable records again for the head. This takes time in proportion to the collection, but leaves it without damage (C1).

/** Removes everything of a damaged record except its id, and corrects the counts of the head. */
function closeDamaged(writer: Writer, head: Head, ordinal: number): void {
  invariant(head.live > 0, `ordinal ${ordinal} is closed, and the head counts ${head.live} live records`);
  if (deleteDamaged(writer, ordinal)) head.dense--;
  head.live--;
  recount(writer, head);
}

/** Counts sparse vectors and texts. Other damaged records may have had them: they count, up to the numbers that the head had before. */
function recount(writer: Writer, head: Head): void {
  const counts = { sparse: 0, text: 0 };
  let damaged = 0;
  for (const key of writer.keys("records")) {
    try {
      const { sparse, text } = new RecordReader(writer.get("records", key) as Uint8Array).contents;
      if (sparse) counts.sparse++;
      if (text) counts.text++;
    } catch (error) {
      if (!isQuiverError(error, "data_corrupted")) throw error;
      damaged++;
    }
  }
  invariant(counts.sparse <= head.live + 1, `${counts.sparse} sparse vectors of ${head.live} live records`);
  head.sparse = counts.sparse + Math.min(damaged, Math.max(0, head.sparse - counts.sparse));
  head.text = counts.text + Math.min(damaged, Math.max(0, head.text - counts.text));
}
