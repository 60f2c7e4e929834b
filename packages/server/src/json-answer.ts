// What is an answer before it goes onto the wire?
//
// Every handler gives JSON text or nothing. Text that the engine has already (a stored record) is not parsed and
// written again, and no schema stands between a result and the client. A large answer is encoded in steps, between which others may
// take their turn, and leaves as pieces, for a text of 100 MB cannot even be copied without holding the thread up.

import type { Steps } from "@quiver/engine/database/contract";
import { invariant } from "@quiver/protocol/invariant";
import { limits } from "@quiver/protocol/limits";

/** JSON text of a value. */
export type JsonText = string & { readonly __json: unique symbol };

export const json = (value: unknown): JsonText => JSON.stringify(value) as JsonText;

/** Declares that a text is JSON already. */
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

/** Gathers texts; a small answer becomes one text, a large one pieces. */
export class JsonWriter {
  readonly #pieces: Buffer[] = [];
  #text = "";

  /** @returns whether a piece is full, and it is time to ask for the time */
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

/** Items of a list that are encoded at once. */
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
