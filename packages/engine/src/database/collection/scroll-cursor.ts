// Of which scroll is a cursor, and where does its page begin?
//
//   nonce, 12 bytes | JSON [order, filter, id, value], encrypted | tag, 16 bytes      in base64url
//
// A cursor names a record, so nobody but the database can read it (AES-256-GCM), or make one. Its key is made of a secret of the data
// directory, of the collection's internal id and of the reader: the cursor of another collection, of one that has replaced this one, or of
// another reader cannot be opened. With another order or filter a cursor would list some records twice and others never, so both are
// compared.

import { createCipheriv, createDecipheriv, createHmac, hash, randomBytes } from "node:crypto";
import { QuiverError } from "@quiverdb/protocol/errors";
import { type Filter, keyOf } from "../../filter/filter.ts";
import type { Order, PageEnd } from "../../query/scroll.ts";

const cipher = "aes-256-gcm";
const nonceBytes = 12;
const tagBytes = 16;

/** What a cursor holds. A value is written as a text: JSON has no infinity. */
type Held = [order: string, filter: string, id: string, value?: string];

/** Makes and reads the cursors of one scroll. */
export class ScrollCursors {
  readonly #key: Uint8Array;
  readonly #order: string;
  readonly #filter: string;
  readonly #isText: boolean;

  /**
   * @param secret of the data directory
   * @param owners the internal id of the collection, and the reader
   * @param order null: by id
   * @param filter of the request; null: none
   */
  constructor(
    secret: Uint8Array,
    owners: readonly [internalId: string, reader: string],
    order: Order | null,
    filter: Filter | null,
  ) {
    this.#key = createHmac("sha256", secret).update(JSON.stringify(owners)).digest();
    this.#order = order === null ? "" : `${order.isDescending ? "-" : "+"}${order.type} ${order.field.name}`;
    this.#filter = filter === null ? "" : hash("sha256", keyOf(filter), "base64url");
    this.#isText = order?.type === "keyword";
  }

  /** The cursor of the page behind this end. */
  make({ id, value }: PageEnd): string {
    const scroll = [this.#order, this.#filter, id] as const;
    const held: Held = value === undefined ? [...scroll] : [...scroll, String(value)];
    const nonce = randomBytes(nonceBytes);
    const sealing = createCipheriv(cipher, this.#key, nonce, { authTagLength: tagBytes });
    const parts = [
      nonce,
      sealing.update(JSON.stringify(held), "utf8"),
      sealing.final(),
      sealing.getAuthTag(),
    ];
    return Buffer.concat(parts).toString("base64url");
  }

  /** The end of the page before. @throws invalid_request if the cursor is of another scroll, or none */
  read(cursor: string): PageEnd {
    const held = this.#open(Buffer.from(cursor, "base64url"));
    if (held === undefined)
      throw refused(
        "is none that a scroll of this collection gave to this caller. Send the next_cursor of the page before, unchanged, to the same collection and with the same key.",
      );
    const [order, filter, id, value] = held;
    if (order !== this.#order)
      throw refused(
        "is of a scroll with another order_by, or the type of the field's metadata index has changed. Send the same order_by with every page.",
      );
    if (filter !== this.#filter)
      throw refused("is of a scroll with another filter. Send the same filter with every page.");
    return value === undefined ? { id } : { id, value: this.#isText ? value : Number(value) };
  }

  #open(bytes: Buffer): Held | undefined {
    if (bytes.length < nonceBytes + tagBytes) return undefined;
    const nonce = bytes.subarray(0, nonceBytes);
    const opening = createDecipheriv(cipher, this.#key, nonce, { authTagLength: tagBytes });
    opening.setAuthTag(bytes.subarray(-tagBytes));
    const text = opening.update(bytes.subarray(nonceBytes, -tagBytes), undefined, "utf8");
    try {
      return JSON.parse(text + opening.final("utf8"));
    } catch {
      // The tag does not fit: the caller says what that means.
      return undefined;
    }
  }
}

const refused = (problem: string): QuiverError =>
  new QuiverError("invalid_request", `cursor ${problem} Or begin again without a cursor.`, {
    path: "cursor",
  });
