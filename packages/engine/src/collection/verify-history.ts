// Do the past records, their vectors and their ids belong together, and are they past?
//
// Each table is walked once, in any order. What the quick check does not read (long records) is only known to be there.

import type { Finding } from "@quiverdb/protocol/shapes/check";
import { lenientText, readU32Key, readU53 } from "../base/bytes.ts";
import { host } from "../base/host.ts";
import type { Head } from "./head.ts";
import { RecordReader } from "./record.ts";
import { documentPrefix, ordinalOfDocumentKey } from "./tables.ts";

type Past = { readonly died: number; readonly hasDense: boolean; readonly id: number };

export class HistoryCheck {
  readonly #find: (finding: Finding) => void;
  /** By ordinal; null: not read. */
  readonly #past = new Map<number, Past | null>();
  readonly #dense = new Set<number>();
  /** CRC-32 of the id, by ordinal. */
  readonly #ids = new Map<number, number>();
  #hasHistory = false;
  readonly #tags: { name: string; version: number }[] = [];

  constructor(find: (finding: Finding) => void) {
    this.#find = find;
  }

  history(): void {
    this.#hasHistory = true;
  }

  tag(key: Uint8Array, body: Uint8Array): void {
    this.#tags.push({ name: lenientText(key), version: readU53(body) });
  }

  /** There is a past record, or a vector of one. */
  note(table: string, ordinal: number): void {
    if (table === "pastDense") this.#dense.add(ordinal);
    else if (!this.#past.has(ordinal)) this.#past.set(ordinal, null);
  }

  past(key: Uint8Array, body: Uint8Array): void {
    const [ordinal, died] = [readU32Key(key), readU53(body)];
    try {
      const record = new RecordReader(body.subarray(8));
      if (record.end === body.length - 8 && record.born < died) {
        const id = host.crc32(documentPrefix(record.idBytes));
        this.#past.set(ordinal, { died, hasDense: record.contents.dense, id });
        return;
      }
    } catch (error) {
      // A field starts beyond the end of the record.
      if (!(error instanceof RangeError) && !(error instanceof TypeError)) throw error;
    }
    this.#past.set(ordinal, null);
    this.#bad(ordinal, `The past record of ordinal ${ordinal} cannot be.`);
  }

  id(key: Uint8Array): void {
    this.#ids.set(ordinalOfDocumentKey(key), host.crc32(key.subarray(0, key.length - 4)));
  }

  #bad(ordinal: number, message: string): void {
    this.#find({ kind: "record", table: "past", ordinal, message });
  }

  conclude(head: Head, records: { has(ordinal: number): boolean }): void {
    if (!this.#hasHistory && this.#past.size + this.#tags.length > 0)
      this.#find({
        kind: "collection",
        table: "meta",
        message: `There are ${this.#past.size} past records and ${this.#tags.length} tags, and no history.`,
      });
    for (const { name, version } of this.#tags)
      if (version > head.version)
        this.#find({
          kind: "version",
          table: "tags",
          version,
          message: `The tag '${name}' names version ${version}, which does not exist.`,
        });
    for (const [ordinal, past] of this.#past) {
      if (ordinal >= head.nextOrdinal || records.has(ordinal) || (past?.died ?? 0) > head.version)
        this.#bad(ordinal, `The record of ordinal ${ordinal} is said to be past, and is not.`);
      if (!this.#ids.has(ordinal)) this.#bad(ordinal, `The past record of ordinal ${ordinal} has no id.`);
      if (past === null) continue;
      if (this.#ids.has(ordinal) && this.#ids.get(ordinal) !== past.id)
        this.#bad(ordinal, `The past record of ordinal ${ordinal} is under another id.`);
      if (past.hasDense !== this.#dense.has(ordinal))
        this.#bad(
          ordinal,
          `The past record of ordinal ${ordinal} ${past.hasDense ? "lacks its" : "has a"} dense vector.`,
        );
    }
    for (const ordinal of [...this.#dense, ...this.#ids.keys()])
      if (!this.#past.has(ordinal))
        this.#bad(ordinal, `Ordinal ${ordinal} has a vector or an id of a past record, and no such record.`);
  }
}
