// Do ids, documents, records and vectors refer to each other consistently?
//
// The check walks each table once, in any order, and marks for each ordinal what the table says about it. At the end it compares the
// marks. For ids and document ids it keeps only a CRC-32, because their own checksums have already proved them intact.

import type { Finding } from "@quiverdb/protocol/shapes/check";
import { lenientText, readU32Key, toHex } from "../base/bytes.ts";
import { host } from "../base/host.ts";
import type { CollectionDefinition } from "./definition.ts";
import type { Head } from "./head.ts";
import { RecordReader } from "./record.ts";
import { recordProblem } from "./record-problem.ts";
import { keeps } from "./shard.ts";
import { documentPrefix, ordinalOfDocumentKey } from "./tables.ts";

const marks = {
  ids: 1,
  documents: 2,
  records: 4,
  dense: 8,
  /** The record was read, and so is known by id and document. */
  read: 16,
  wantsDense: 32,
  wantsDocument: 64,
} as const;

/** Receives the ordinals that the change log has closed. */
type ClosedOrdinals = { isClosed(ordinal: number): boolean };

const chunkOrdinals = 65_536;

type Chunk = { ids: Uint32Array; documents: Uint32Array; marks: Uint8Array };

export class RecordCheck {
  readonly #find: (finding: Finding) => void;
  readonly #definition: CollectionDefinition | undefined;
  readonly #chunks = new Map<number, Chunk>();
  /** Number of records, including damaged ones whose key is intact. */
  count = 0;
  #sparse = 0;
  #text = 0;
  #readCount = 0;
  #lastBorn = 0;

  constructor(find: (finding: Finding) => void, definition: CollectionDefinition | undefined) {
    this.#find = find;
    this.#definition = definition;
  }

  #at(ordinal: number): [chunk: Chunk, at: number] {
    const number = Math.floor(ordinal / chunkOrdinals);
    let chunk = this.#chunks.get(number);
    if (chunk === undefined) {
      chunk = {
        ids: new Uint32Array(chunkOrdinals),
        documents: new Uint32Array(chunkOrdinals),
        marks: new Uint8Array(chunkOrdinals),
      };
      this.#chunks.set(number, chunk);
    }
    return [chunk, ordinal % chunkOrdinals];
  }

  /** Whether a record has its place under an ordinal. */
  has(ordinal: number): boolean {
    const chunk = this.#chunks.get(Math.floor(ordinal / chunkOrdinals));
    return chunk !== undefined && (chunk.marks[ordinal % chunkOrdinals] & marks.records) !== 0;
  }

  /** An entry of `ids`. */
  id(key: Uint8Array, body: Uint8Array): void {
    const ordinal = readU32Key(body);
    const [chunk, at] = this.#at(ordinal);
    if (chunk.marks[at] & marks.ids) {
      const record_id = lenientText(key);
      const message = `The id '${record_id}' has ordinal ${ordinal}, which another id has already.`;
      this.#find({ kind: "id", table: "ids", ordinal, record_id, message });
    }
    chunk.marks[at] |= marks.ids;
    chunk.ids[at] = host.crc32(key);
  }

  /** A key of `others`. */
  other(key: Uint8Array): void {
    const shard = this.#definition?.shard;
    if (shard !== undefined && !keeps(shard, key)) return;
    const record_id = lenientText(key);
    const message = `The record '${record_id}' is noted as one of another shard; it belongs to this store.`;
    this.#find({ kind: "id", table: "others", record_id, message });
  }

  /** A key of `documents`. */
  document(key: Uint8Array): void {
    const ordinal = ordinalOfDocumentKey(key);
    const [chunk, at] = this.#at(ordinal);
    if (chunk.marks[at] & marks.documents)
      this.#find({
        kind: "document",
        table: "documents",
        key: toHex(key),
        ordinal,
        message: `The record of ordinal ${ordinal} is in two documents.`,
      });
    chunk.marks[at] |= marks.documents;
    chunk.documents[at] = host.crc32(key.subarray(0, key.length - 4));
  }

  /** There is a record or a vector. */
  note(table: "records" | "dense", ordinal: number): void {
    const [chunk, at] = this.#at(ordinal);
    if (table === "records" && !(chunk.marks[at] & marks.records)) this.count++;
    chunk.marks[at] |= marks[table];
  }

  /** A record whose checksum is right. */
  record(ordinal: number, body: Uint8Array): void {
    this.note("records", ordinal);
    if (body.length < 11) return;
    const record = new RecordReader(body);
    const [chunk, at] = this.#at(ordinal);
    chunk.marks[at] |= marks.read;
    this.#readCount++;
    const { dense, sparse, text } = record.contents;
    if (dense) chunk.marks[at] |= marks.wantsDense;
    if (sparse) this.#sparse++;
    if (text) this.#text++;
    const id = record.idBytes;
    const bad = (kind: "id" | "document", message: string) =>
      this.#find({ kind, ordinal, record_id: record.id, message });
    if (!(chunk.marks[at] & marks.ids))
      bad(
        "id",
        `The record '${record.id}' of ordinal ${ordinal} is in no id's place; its id should name it.`,
      );
    else if (chunk.ids[at] !== host.crc32(id))
      bad("id", `The record of ordinal ${ordinal} has the id '${record.id}'; another id names it.`);
    const document = record.documentIdBytes;
    const isIn = (chunk.marks[at] & marks.documents) !== 0;
    if (document.length > 0) chunk.marks[at] |= marks.wantsDocument;
    if (document.length > 0 && !isIn)
      bad("document", `The record '${record.id}' is missing in its document '${record.documentId}'.`);
    else if (document.length > 0 && chunk.documents[at] !== host.crc32(documentPrefix(document)))
      bad("document", `The record '${record.id}' is in another document than '${record.documentId}'.`);
  }

  /** Looks into a record and its vector. @returns whether there was a problem */
  contentProblem(ordinal: number, body: Uint8Array, dense: Uint8Array | undefined): boolean {
    const found = (message: string, id?: string) => {
      this.#find({ kind: "record", table: "records", ordinal, ...(id && { record_id: id }), message });
      return true;
    };
    const problem = recordProblem(body, this.#definition);
    if (problem !== undefined) return found(`The record of ordinal ${ordinal} ${problem}.`);
    const record = new RecordReader(body);
    if (record.born < this.#lastBorn)
      found(
        `The record '${record.id}' is of version ${record.born}, but a smaller ordinal is of version ${this.#lastBorn}.`,
        record.id,
      );
    this.#lastBorn = Math.max(this.#lastBorn, record.born);
    if (!record.contents.dense || dense === undefined) return record.contents.dense;
    const dimension = this.#definition?.dimension ?? dense.length / 4;
    if (dense.length !== 4 * dimension)
      return found(
        `The vector of '${record.id}' has ${dense.length} bytes; expected are ${4 * dimension}.`,
        record.id,
      );
    const view = new DataView(dense.buffer, dense.byteOffset, dense.byteLength);
    for (let i = 0; i < dense.length; i += 4)
      if (!Number.isFinite(view.getFloat32(i, true)))
        return found(`The vector of '${record.id}' has a value that is not finite.`, record.id);
    return false;
  }

  /** Compares the marks with each other and with the head. */
  conclude(head: Head, versions: ClosedOrdinals): void {
    let ids = 0;
    let dense = 0;
    for (const [number, chunk] of this.#chunks)
      for (let at = 0; at < chunkOrdinals; at++) {
        const mark = chunk.marks[at];
        if (mark === 0) continue;
        if (mark & marks.ids) ids++;
        if (mark & marks.dense) dense++;
        this.#compare(number * chunkOrdinals + at, mark, head, versions);
      }
    const count = (what: string, found: number, expected: number) => {
      if (found !== expected)
        this.#find({
          kind: "collection",
          message: `There are ${found} ${what}; the head of version ${head.version} says ${expected}.`,
          version: head.version,
        });
    };
    count("records", this.count, head.live);
    count("ids", ids, head.live);
    count("dense vectors", dense, head.dense);
    if (this.#readCount !== this.count) return;
    count("records with a sparse vector", this.#sparse, head.sparse);
    count("records with a text", this.#text, head.text);
  }

  #compare(ordinal: number, mark: number, head: Head, versions: ClosedOrdinals): void {
    const bad = (message: string) => this.#find({ kind: "record", ordinal, message });
    if (ordinal >= head.nextOrdinal)
      bad(`Ordinal ${ordinal} is in use; the next one to be given is ${head.nextOrdinal}.`);
    if (!(mark & marks.records)) {
      const where = [
        mark & marks.ids ? "an id" : "",
        mark & marks.documents ? "a document" : "",
        mark & marks.dense ? "a vector" : "",
      ].filter((word) => word !== "");
      bad(`Ordinal ${ordinal} has ${where.join(" and ")}, but its record is missing.`);
      return;
    }
    if (!(mark & marks.ids) && !(mark & marks.read))
      bad(`The record of ordinal ${ordinal} is named by no id.`);
    if (versions.isClosed(ordinal))
      bad(`The record of ordinal ${ordinal} exists, but the log has closed it.`);
    if (!(mark & marks.read)) return;
    if (mark & marks.wantsDense && !(mark & marks.dense)) bad(`The vector of ordinal ${ordinal} is missing.`);
    if (!(mark & marks.wantsDense) && mark & marks.dense)
      bad(`Ordinal ${ordinal} has a vector; its record has none.`);
    if (!(mark & marks.wantsDocument) && mark & marks.documents)
      bad(`Ordinal ${ordinal} is in a document; its record is in none.`);
  }
}
