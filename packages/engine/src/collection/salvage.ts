// Which records of a damaged collection are intact?
//
// A user without a backup runs `quiver repair` and keeps all records but those that are hit, each of which is named.
//
// Salvage saves every live record if its own checksum and that of its vector are right. It finds records through their table, or in
// unreachable pages (storage/lmdb-carve.ts). If the list of free pages is damaged too, an unreachable record may have been deleted
// before. Then the table of ids decides, and if that is damaged too, the change log.
//
// Salvage does not copy the tables of ids and documents, because they follow from the records. It reads ids only to name lost records.

import type { VectorRecord } from "@quiverdb/protocol/shapes/vector";
import { emptyBytes, fromHex, lenientText, readU32Key, text, toHex } from "../base/bytes.ts";
import { carve, openBySearch, type Place, payloadAt } from "../storage/lmdb-carve.ts";
import type { LmdbFile } from "../storage/lmdb-file.ts";
import { verifyFile } from "../storage/lmdb-verify.ts";
import { payloadOf } from "../storage/store.ts";
import type { IndexDefinitions } from "./apply.ts";
import type { CollectionDefinition } from "./definition.ts";
import { requireKnownFormat } from "./format.ts";
import { decodeHead, type Head } from "./head.ts";
import { OrdinalSet } from "./ordinal-set.ts";
import { StoredVector } from "./reading.ts";
import { operationBytes, RecordReader } from "./record.ts";
import { recordProblem } from "./record-problem.ts";
import { collectionTables, isWellShaped, metaKeys, ordinalKey, type TableName, tables } from "./tables.ts";

/** A record, or something else of the collection, that cannot be saved. */
export type Loss = {
  readonly collection: string;
  readonly record_id?: string;
  readonly ordinal?: number;
  readonly message: string;
  /** The intact rest of the record: everything except its vector. */
  readonly remains?: VectorRecord;
};

type LossOf = Omit<Loss, "collection">;

export class Salvage {
  readonly #file: LmdbFile;
  readonly #onLoss: (loss: LossOf) => void;
  /** Where records, vectors and ids in unreachable pages lie. */
  readonly #hidden = { records: new Map<number, Place>(), dense: new Map<number, Place>() };
  readonly #hiddenIds = new Map<string, number>();
  readonly #meta = new Map<string, Uint8Array>();
  readonly #closed = new OrdinalSet();
  readonly #taken = new OrdinalSet();
  readonly #reported = new OrdinalSet();
  #areIdsWhole = true;
  #areFreePagesKnown = true;
  /** Number of records saved, and of records known to be lost. */
  taken = 0;
  lost = 0;

  /** @throws format_too_new, format_too_old, and if the file cannot be opened at all */
  constructor(directory: string, onLoss: (loss: LossOf) => void) {
    this.#file = openBySearch(directory, collectionTables);
    this.#onLoss = onLoss;
    try {
      requireKnownFormat(this.#file, "collection");
    } catch (error) {
      this.#file.close();
      throw error;
    }
    if (this.#file.problems.length > 0) this.#areFreePagesKnown = false;
    this.#look();
  }

  close(): void {
    this.#file.close();
  }

  /** Finds the damage, and the entries in unreachable pages. */
  #look(): void {
    const pages = verifyFile(
      this.#file,
      collectionTables,
      ({ table }) => {
        if (table === "ids" || table === "(tables)") this.#areIdsWhole = false;
        if (table === "(free pages)") this.#areFreePagesKnown = false;
      },
      (table, { key, stored }) => {
        if (table === "ids" && (stored === undefined || !payloadOf(table, key, stored)))
          this.#areIdsWhole = false;
      },
    );
    const take = (table: string, key: Uint8Array, body: Uint8Array) => {
      if (table === "meta") this.#meta.set(text(key), body.slice());
      if (table === "closed")
        for (const ordinal of new Uint32Array(body.slice().buffer)) this.#closed.add(ordinal);
    };
    for (const { table, key, body, place } of carve(this.#file, pages, collectionTables)) {
      if (!isWellShaped(table, key, body)) continue;
      take(table, key, body);
      if (table === "records" || table === "dense") this.#hidden[table].set(readU32Key(key), place);
      if (table === "ids") {
        const id = toHex(key);
        this.#hiddenIds.set(id, Math.max(readU32Key(body), this.#hiddenIds.get(id) ?? -1));
      }
    }
    // Entries that the tables reach are newer than those in unreachable pages, so read them last.
    for (const table of ["meta", "closed"] as const)
      for (const [key, body] of this.#intact(table)) take(table, key, body);
  }

  /** The intact entries of a table that pages reach. */
  *#intact(table: TableName): Generator<[key: Uint8Array, body: Uint8Array]> {
    for (const [key, body] of this.#file.payloads(table))
      if (body !== undefined && isWellShaped(table, key, body)) yield [key, body];
  }

  #json<T>(key: Uint8Array): T | undefined {
    const body = this.#meta.get(text(key));
    return body && (JSON.parse(text(body)) as T);
  }

  /** The collection's own copy of its definition; undefined if it is damaged. */
  get definition(): CollectionDefinition | undefined {
    return this.#json(metaKeys.definition);
  }

  /** Definitions of the indexes; none if they are damaged. */
  get indexes(): IndexDefinitions {
    return this.#json(metaKeys.indexes) ?? {};
  }

  get head(): Head | undefined {
    const body = this.#meta.get(text(metaKeys.head));
    return body && decodeHead(body);
  }

  /** Upserts of the intact records, in the order of their ordinals. Reports each lost record. */
  *operations(definition: CollectionDefinition): Generator<Uint8Array> {
    const hidden = [...this.#hidden.records.keys()].sort((a, b) => a - b);
    let next = 0;
    for (const [key, body] of this.#intact("records")) {
      const ordinal = readU32Key(key);
      for (; next < hidden.length && hidden[next] < ordinal; next++)
        yield* this.#hiddenOperation(hidden[next], definition);
      if (hidden[next] === ordinal) next++;
      yield* this.#operation(ordinal, body, definition);
    }
    for (; next < hidden.length; next++) yield* this.#hiddenOperation(hidden[next], definition);
    this.#tellLost();
  }

  *#hiddenOperation(ordinal: number, definition: CollectionDefinition): Generator<Uint8Array> {
    const body = payloadAt(this.#file, "records", this.#hidden.records.get(ordinal) as Place);
    if (body === undefined || !this.#isLive(ordinal, body)) return;
    yield* this.#operation(ordinal, body, definition);
  }

  /** Whether a record in an unreachable page is live, rather than deleted before the damage. */
  #isLive(ordinal: number, body: Uint8Array): boolean {
    const id = new RecordReader(body).idBytes;
    const named = this.#file.get("ids", id);
    if (named !== undefined) return isWellShaped("ids", id, named) && readU32Key(named) === ordinal;
    if (this.#areIdsWhole || this.#closed.has(ordinal)) return false;
    return this.#areFreePagesKnown || (this.#hiddenIds.get(toHex(id)) ?? ordinal) === ordinal;
  }

  *#operation(ordinal: number, body: Uint8Array, definition: CollectionDefinition): Generator<Uint8Array> {
    const problem = recordProblem(body, definition);
    if (problem !== undefined) {
      this.#lose(ordinal, { message: `The record of ordinal ${ordinal} ${problem}.` });
      return;
    }
    const record = new RecordReader(body);
    const id = record.idBytes;
    let dense: Uint8Array = emptyBytes;
    if (record.contents.dense) {
      const vector = this.#vector(ordinal);
      if (vector?.length !== 4 * (definition.dimension ?? 0)) {
        this.#lose(ordinal, {
          record_id: record.id,
          message: `The dense vector of '${record.id}' is lost.`,
          remains: new StoredVector(record, null).toRecord(),
        });
        return;
      }
      dense = vector;
    }
    if (this.#taken.add(ordinal)) this.taken++;
    yield operationBytes({ kind: "upsert", id, content: record.content, dense });
  }

  #vector(ordinal: number): Uint8Array | undefined {
    const place = this.#hidden.dense.get(ordinal);
    return this.#file.get("dense", ordinalKey(ordinal)) ?? (place && payloadAt(this.#file, "dense", place));
  }

  #lose(ordinal: number, loss: Omit<LossOf, "ordinal">): void {
    if (!this.#reported.add(ordinal)) return;
    this.lost++;
    this.#onLoss({ ordinal, ...loss });
  }

  /** Reports the records that are known from ids or keys but were not saved. */
  #tellLost(): void {
    const name = (id: Uint8Array, ordinal: number) => {
      const record_id = lenientText(id);
      if (!this.#taken.has(ordinal))
        this.#lose(ordinal, { record_id, message: `The record '${record_id}' is lost.` });
    };
    for (const [key, body] of this.#intact("ids")) name(key, readU32Key(body));
    if (!this.#areIdsWhole)
      for (const [id, ordinal] of this.#hiddenIds) if (this.#areFreePagesKnown) name(fromHex(id), ordinal);
    for (const { key } of this.#file.entries("records", false)) {
      if (!tables.records.key.fits(key)) continue;
      const ordinal = readU32Key(key);
      if (!this.#taken.has(ordinal) && !this.#closed.has(ordinal))
        this.#lose(ordinal, { message: `The record of ordinal ${ordinal} is lost.` });
    }
    const { head } = this;
    const missing = (head?.live ?? 0) - this.taken - this.lost;
    if (head !== undefined && missing > 0) {
      this.lost += missing;
      this.#onLoss({ message: `${missing} more records are lost; their ids are unknown.` });
    }
    if (head !== undefined && missing < 0)
      this.#onLoss({
        message: `${-missing} of the saved records may have been deleted before the damage; it is unknown which.`,
      });
    if (head === undefined)
      this.#onLoss({ message: "How many records there were is not known: the head is lost." });
    if (this.#meta.has(text(metaKeys.history)))
      this.#onLoss({ message: "Earlier versions and tags are not saved; the current version is." });
    if (head !== undefined && head.openTransaction !== 0)
      this.#onLoss({
        message: "The open transaction is not saved; its operations must be sent again.",
      });
  }
}
