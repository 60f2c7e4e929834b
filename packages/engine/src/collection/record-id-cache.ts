// Which id, document and metadata has a record, without reading it from the store?
//
// A search returns ids, but indexes know ordinals only. Reading ten records takes longer than finding them in a small index: a read of the
// store costs 1.5 µs and more, most of it in LMDB. An ordinal is never used again, and its record never changes, so what was read once
// holds for every version that sees the record.
//
// A direct-mapped cache: an ordinal has one place, and the ordinal that is read later takes it. The table doubles when ordinals often meet
// in one place. Metadata is larger, and asked for by some searches only: the texts that were read last are kept, up to some megabytes.

import { invariant } from "../base/invariant.ts";
import type { Reader } from "../storage/store.ts";
import { RecordReader } from "./record.ts";
import { ordinalKey } from "./tables.ts";

export type Identity = {
  readonly ordinal: number;
  readonly id: string;
  readonly documentId: string | null;
};

const placesMin = 2 ** 10;
const placesMax = 2 ** 18;
/** Of an entry without its characters: two strings, the object and its place (Node.js 24, measured). */
const entryBytes = 128;
/** Longer ones are not kept. */
const charactersMax = 256;

/** Bytes of metadata that are kept, how many of them are asked for at a time, and those of an entry without its characters. */
const metadataBytesMax = 16 * 2 ** 20;
const metadataRoomStep = 2 ** 20;
const metadataEntryBytes = 96;
/** Longer texts are not kept. */
const metadataLengthMax = 16_384;

export class RecordIdCache {
  readonly #mayTake: (bytes: number) => boolean;
  #places: (Identity | undefined)[] = [];
  #bytes = 0;
  /** Entries that were replaced since the table grew. */
  #replaced = 0;
  /** By ordinal, in the order of reading. */
  readonly #metadata = new Map<number, string>();
  #metadataBytes = 0;
  #metadataRoom = 0;

  /** @param mayTake whether this many more bytes may be taken for optional memory */
  constructor(mayTake: (bytes: number) => boolean = () => true) {
    this.#mayTake = mayTake;
  }

  get memoryBytes(): number {
    return this.#bytes + 8 * this.#places.length + this.#metadataBytes;
  }

  /** @param reader of a version that has the record. @throws data_corrupted, or if there is no such record */
  of(reader: Reader, ordinal: number): Identity {
    const place = ordinal & (this.#places.length - 1);
    const found = this.#places[place];
    if (found?.ordinal === ordinal) return found;
    const { id, documentId } = recordOf(reader, ordinal);
    const identity = { ordinal, id, documentId };
    this.#keep(identity);
    return identity;
  }

  /** The exact text of a record's metadata; null: it has none. @throws as `of` does */
  metadataOf(reader: Reader, ordinal: number): string | null {
    const known = this.#metadata.get(ordinal);
    if (known !== undefined) return known;
    const { metadataJson } = recordOf(reader, ordinal);
    if (metadataJson !== null && metadataJson.length <= metadataLengthMax)
      this.#keepMetadata(ordinal, metadataJson);
    return metadataJson;
  }

  #keepMetadata(ordinal: number, json: string): void {
    const bytes = metadataBytesOf(json);
    const isShort = this.#metadataBytes + bytes > this.#metadataRoom;
    if (isShort && this.#metadataRoom < metadataBytesMax && this.#mayTake(metadataRoomStep))
      this.#metadataRoom += metadataRoomStep;
    for (const [oldest, kept] of this.#metadata) {
      if (this.#metadataBytes + bytes <= this.#metadataRoom) break;
      this.#metadata.delete(oldest);
      this.#metadataBytes -= metadataBytesOf(kept);
    }
    if (bytes > this.#metadataRoom) return;
    this.#metadata.set(ordinal, json);
    this.#metadataBytes += bytes;
  }

  /** Frees the memory. */
  clear(): void {
    this.#metadata.clear();
    this.#metadataBytes = 0;
    this.#metadataRoom = 0;
    this.#places = [];
    this.#bytes = 0;
    this.#replaced = 0;
  }

  #keep(identity: Identity): void {
    if (charactersOf(identity) > charactersMax) return;
    const { length } = this.#places;
    if ((length === 0 || this.#replaced > length) && length < placesMax) this.#grow();
    if (this.#places.length === 0) return;
    const place = identity.ordinal & (this.#places.length - 1);
    const before = this.#places[place];
    if (before !== undefined) {
      this.#replaced++;
      this.#bytes -= bytesOf(before);
    }
    this.#places[place] = identity;
    this.#bytes += bytesOf(identity);
  }

  #grow(): void {
    const length = Math.max(placesMin, 2 * this.#places.length);
    this.#replaced = 0;
    if (!this.#mayTake(length * (entryBytes / 2))) return;
    const places = new Array<Identity | undefined>(length).fill(undefined);
    for (const identity of this.#places)
      if (identity !== undefined) places[identity.ordinal & (length - 1)] = identity;
    this.#places = places;
  }
}

const metadataBytesOf = (json: string): number => metadataEntryBytes + 2 * json.length;
const charactersOf = ({ id, documentId }: Identity): number => id.length + (documentId?.length ?? 0);
const bytesOf = (identity: Identity): number => entryBytes + charactersOf(identity);

/** A record that a version has, borrowed from the store until the next read. */
export function recordOf(reader: Reader, ordinal: number): RecordReader {
  const bytes = reader.get("records", ordinalKey(ordinal));
  invariant(bytes !== undefined, `the index found ordinal ${ordinal}, which the version does not have`);
  return new RecordReader(bytes);
}
