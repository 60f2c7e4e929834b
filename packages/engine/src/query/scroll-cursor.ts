// Of which scroll is a cursor?
//
//   the checksum of its order, 8 hex digits | that of its filter, 8 hex digits | . | where the page ended (scroll.ts)
//
// With another order or filter a cursor would list some records twice and others never, without a sign of it. The checksums find such
// mistakes. They are no protection, and need be none: a cursor says only where a page begins.

import { QuiverError } from "@quiverdb/protocol/errors";
import { utf8 } from "../base/bytes.ts";
import { host } from "../base/host.ts";
import { type Filter, keyOf } from "../filter/filter.ts";
import type { Order } from "./scroll.ts";

/** The order and the filter of a scroll. */
export class ScrollMark {
  readonly #order: string;
  readonly #filter: string;

  /** @param order null: by id. @param filter of the request; null: none */
  constructor(order: Pick<Order, "field" | "isDescending"> | null, filter: Filter | null) {
    this.#order = checksum(order === null ? "" : `${order.isDescending ? "-" : "+"}${order.field.name}`);
    this.#filter = checksum(filter === null ? "" : keyOf(filter));
  }

  /** The cursor of a page's end. */
  mark(end: string | null): string | null {
    return end === null ? null : `${this.#order}${this.#filter}.${end}`;
  }

  /** The page's end of a cursor. @throws invalid_request if the cursor is of another scroll, or none */
  endOf(cursor: string): string {
    const [, order, filter, end] = /^([0-9a-f]{8})([0-9a-f]{8})\.(.*)$/s.exec(cursor) ?? [];
    if (end === undefined) throw refused("is none that a scroll gave; expected the next_cursor of a page.");
    if (order !== this.#order)
      throw refused("is of a scroll with another order_by. Send the same order_by with every page.");
    if (filter !== this.#filter)
      throw refused("is of a scroll with another filter. Send the same filter with every page.");
    return end;
  }
}

const checksum = (text: string): string => host.crc32(utf8(text)).toString(16).padStart(8, "0");

const refused = (problem: string): QuiverError =>
  new QuiverError("invalid_request", `cursor ${problem} Or begin again without a cursor.`, {
    path: "cursor",
  });
