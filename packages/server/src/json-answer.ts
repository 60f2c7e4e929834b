// How is a response body represented and encoded?
//
// Every handler returns JSON text or nothing. Text that the engine already has (a stored record) is not parsed and serialised again, and
// results are not serialised by a schema. A large response is encoded in steps, between which other requests run, and is sent in pieces,
// because even copying a text of 100 MB would block the thread.

import type { Steps } from "@quiverdb/engine/database/contract";
import { invariant } from "@quiverdb/protocol/invariant";
import { limits } from "@quiverdb/protocol/limits";

/** JSON text of a value. */
export type JsonText = string & { readonly __json: unique symbol };

export const json = (value: unknown): JsonText => JSON.stringify(value) as JsonText;

/** Marks a text as JSON. */
export const asJson = (text: string): JsonText => text as JsonText;

export const emptyObject = asJson("{}");

/** JSON text in pieces. */
export class JsonPieces {
  readonly pieces: readonly Buffer[];
  readonly bytes: number;

  constructor(pieces: readonly Buffer[]) {
    this.pieces = pieces;
    this.bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
  }
}

/** Collects texts; a small response becomes one text, a large one pieces. */
export class JsonWriter {
  readonly #pieces: Buffer[] = [];
  #text = "";

  /** @returns whether a piece is full, so that the caller should check its time slice */
  add(text: string): boolean {
    this.#text += text;
    if (this.#text.length < limits.bodyPieceBytes) return false;
    this.#pieces.push(Buffer.from(this.#text));
    this.#text = "";
    return true;
  }

  end(): JsonText | JsonPieces {
    invariant(this.#pieces.length > 0 || this.#text !== "", "an answer of no text is sent as JSON");
    if (this.#pieces.length === 0) return asJson(this.#text);
    if (this.#text !== "") this.#pieces.push(Buffer.from(this.#text));
    return new JsonPieces(this.#pieces);
  }
}

/** Items of a list that are encoded in one step. */
const itemsPerStep = 64;

/** JSON of an array, some items at a time. @param textOf JSON text of an item; default: as `JSON.stringify` writes it */
export function* arrayJson<T>(
  items: readonly T[],
  out: JsonWriter,
  textOf: (item: T) => string = JSON.stringify,
): Steps<void> {
  out.add("[");
  for (let i = 0; i < items.length; i++) {
    const isFull = out.add(i === 0 ? textOf(items[i]) : `,${textOf(items[i])}`);
    if (isFull || i % itemsPerStep === itemsPerStep - 1) yield;
  }
  out.add("]");
}
