// Is the change log a chain, and does it agree with the records?
//
// Each version's entry must follow from the previous one: its first ordinal is the previous end, and its number of live records is the
// previous number plus the opened minus the closed ones. Every record that a kept version opened is live, or a kept version closed it.
// The check computes a version's hash again if the log and the records still have all its changes: every record that it opened is
// live, and it replaced, rather than deleted, every record that it closed (the id of a deleted record is gone).

import type { Finding } from "@quiverdb/protocol/shapes/check";
import { compareBytes, emptyBytes, readU32Key, readU53, toHex } from "../base/bytes.ts";
import { host, type Sha256 } from "../base/host.ts";
import type { Head } from "./head.ts";
import { OrdinalSet } from "./ordinal-set.ts";
import { recentBlockBytes, recentRowBytes, rowsOf } from "./recent-entries.ts";
import { operationBytes, RecordReader } from "./record.ts";
import { decodeVersion, rootHash, type VersionEntry } from "./versions.ts";

/** Receives the records of the collection by ascending ordinal. */
type ContentsCheck = {
  add(ordinal: number, record: Uint8Array, dense: Uint8Array | undefined): void;
  end(): void;
};

export class VersionCheck {
  readonly #find: (finding: Finding) => void;
  readonly #entries: VersionEntry[] = [];
  readonly #closed = new OrdinalSet();
  readonly #closedCounts = new Map<number, number>();
  readonly #nextPart = new Map<number, number>();
  /** Number of versions whose hash was computed again. */
  derived = 0;

  constructor(find: (finding: Finding) => void) {
    this.#find = find;
  }

  get count(): number {
    return this.#entries.length;
  }

  isClosed(ordinal: number): boolean {
    return this.#closed.has(ordinal);
  }

  #bad(version: number, message: string): void {
    this.#find({ kind: "version", version, message });
  }

  /** Checks an entry of `versions`, in order. */
  version(key: Uint8Array, body: Uint8Array): void {
    this.#entries.push(decodeVersion(readU53(key), body));
  }

  /** Checks a part of the closed ordinals of a version, in order. */
  closed(key: Uint8Array, body: Uint8Array): void {
    const [version, part] = [readU53(key), readU32Key(key, 8)];
    const expected = this.#nextPart.get(version) ?? 0;
    if (part > expected)
      this.#bad(version, `Of the ordinals that version ${version} closed, part ${expected} is missing.`);
    this.#nextPart.set(version, part + 1);
    const ordinals = new Uint32Array(body.slice().buffer);
    this.#closedCounts.set(version, (this.#closedCounts.get(version) ?? 0) + ordinals.length);
    for (const ordinal of ordinals)
      if (!this.#closed.add(ordinal))
        this.#bad(version, `Version ${version} closes ordinal ${ordinal}, which is closed already.`);
  }

  /** Computes hashes again, if wanted, while it receives the records. Call it after all entries of `versions`. */
  contents(isHashed: boolean): ContentsCheck {
    const entries = this.#entries;
    let i = 0;
    let hash: Sha256 | undefined;
    let next = 0;
    const end = (entry: VersionEntry) => entry.firstOrdinal + entry.opened;
    const parentOf = (at: number): Uint8Array | undefined => {
      const { version } = entries[at];
      if (version === 0) return undefined;
      return entries[at - 1]?.version === version - 1 ? entries[at - 1].hash : undefined;
    };
    const finish = (entry: VersionEntry) => {
      if (hash === undefined || next !== end(entry)) return;
      const isRight = compareBytes(hash.digest(), entry.hash) === 0;
      if (isRight) this.derived++;
      else if (!this.#closedCounts.has(entry.version))
        this.#bad(
          entry.version,
          `The hash of version ${entry.version} is not that of its parent's hash and its changes.`,
        );
    };
    return {
      add: (ordinal, record, dense) => {
        for (; i < entries.length && ordinal >= end(entries[i]); i++) {
          finish(entries[i]);
          hash = undefined;
        }
        const entry = entries[i];
        if (entry === undefined || ordinal < entry.firstOrdinal) return;
        const reader = new RecordReader(record);
        if (reader.born !== entry.version)
          this.#find({
            kind: "record",
            ordinal,
            record_id: reader.id,
            version: entry.version,
            message: `The record '${reader.id}' says that it was born at ${reader.born}; the log says ${entry.version}.`,
          });
        if (ordinal === entry.firstOrdinal) {
          const parent = isHashed ? parentOf(i) : undefined;
          hash = parent && host.sha256().update(parent);
          next = ordinal;
        }
        if (hash === undefined || ordinal !== next) {
          hash = undefined;
          return;
        }
        next++;
        const { idBytes: id, content } = reader;
        hash.update(operationBytes({ kind: "upsert", id, content, dense: dense ?? emptyBytes }));
      },
      end: () => {
        if (i < entries.length) finish(entries[i]);
      },
    };
  }

  conclude(head: Head, records: { has(ordinal: number): boolean }): void {
    const entries = this.#entries;
    const last = entries.at(-1);
    if (last === undefined || last.version !== head.version) {
      this.#bad(
        head.version,
        `The log ends at version ${last?.version ?? "none"}; the head is at ${head.version}.`,
      );
      return;
    }
    if (compareBytes(last.hash, head.hash) !== 0)
      this.#bad(head.version, `The hash of version ${head.version} in the log is not that of the head.`);
    if (last.live !== head.live)
      this.#bad(
        head.version,
        `Version ${head.version} has ${last.live} records in the log, ${head.live} in the head.`,
      );
    if (last.firstOrdinal + last.opened !== head.nextOrdinal)
      this.#bad(
        head.version,
        `The log has given ordinals up to ${last.firstOrdinal + last.opened}, the head up to ${head.nextOrdinal}.`,
      );
    if (entries[0].version === 0 && compareBytes(entries[0].hash, rootHash) !== 0)
      this.#bad(0, "Version 0 has not the hash that every collection begins with.");
    for (let i = 1; i < entries.length; i++) this.#follow(entries[i - 1], entries[i]);
    for (const version of this.#closedCounts.keys())
      if (version < entries[0].version || version > head.version)
        this.#bad(version, `The log has closed ordinals of version ${version}, which it does not have.`);
    for (let ordinal = entries[0].firstOrdinal; ordinal < head.nextOrdinal; ordinal++)
      if (!records.has(ordinal) && !this.isClosed(ordinal))
        this.#find({
          kind: "record",
          ordinal,
          message: `Ordinal ${ordinal} was assigned to a record that neither exists nor was closed by a version.`,
        });
  }

  #follow(before: VersionEntry, entry: VersionEntry): void {
    const { version } = entry;
    if (version !== before.version + 1) {
      this.#bad(version, `Between the versions ${before.version} and ${version} the log has a gap.`);
      return;
    }
    const first = before.firstOrdinal + before.opened;
    if (entry.firstOrdinal !== first)
      this.#bad(
        version,
        `Version ${version} begins with ordinal ${entry.firstOrdinal}; expected is ${first}.`,
      );
    const closed = this.#closedCounts.get(version) ?? 0;
    const live = before.live + entry.opened - closed;
    if (entry.live !== live)
      this.#bad(
        version,
        `Version ${version} has ${entry.live} records; ${before.live} and ${entry.opened} opened less ${closed} closed are ${live}.`,
      );
  }
}

// ---- Do the log entries that a collection remembers agree with its head?
//
// Their numbers must ascend through all blocks and the latest rows, and the last number must be that of the head.

export class LogCheck {
  readonly #find: (finding: Finding) => void;
  #latest: number[] = [];
  /** The last entry of the last block. */
  #lastOfBlocks = 0;

  constructor(find: (finding: Finding) => void) {
    this.#find = find;
  }

  #bad(message: string, table: "meta" | "recent", key?: Uint8Array): void {
    this.#find({ kind: "collection", table, ...(key && { key: toHex(key) }), message });
  }

  /** The latest entries, which do not fill a block yet. */
  latest(body: Uint8Array): void {
    if (body.length >= recentBlockBytes || body.length % recentRowBytes !== 0)
      this.#bad(`The latest log entries have ${body.length} bytes, which is no number of them.`, "meta");
    else this.#latest = Array.from(rowsOf(body), ({ sequence }) => sequence);
  }

  /** Checks a block of entries, in order. */
  block(key: Uint8Array, body: Uint8Array): void {
    for (const { sequence } of rowsOf(body)) {
      if (sequence <= this.#lastOfBlocks)
        this.#bad(`The log entry ${sequence} comes after entry ${this.#lastOfBlocks}.`, "recent", key);
      this.#lastOfBlocks = sequence;
    }
    if (this.#lastOfBlocks !== readU53(key))
      this.#bad(`A block of log entries ends with ${this.#lastOfBlocks}, not with its key.`, "recent", key);
  }

  conclude(head: Head): void {
    let last = this.#lastOfBlocks;
    for (const sequence of this.#latest) {
      if (sequence <= last) this.#bad(`The log entry ${sequence} comes after entry ${last}.`, "meta");
      last = sequence;
    }
    // A restored collection remembers no entries from before the restore.
    if (last !== 0 && last !== head.sequence)
      this.#bad(`The last log entry that is remembered is ${last}; the head is at ${head.sequence}.`, "meta");
  }
}
