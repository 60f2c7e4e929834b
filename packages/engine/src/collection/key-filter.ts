// Which records exist for a caller that may only see those that match a filter?
//
//   KeyFilter   the filter, read once, in the thread that takes the request
//   WriterKeyFilter   the same as it accompanies a request to the writer
//   KeyFilterRules    what the writer checks: only it knows the version that a write changes
//
// A hidden record is treated as if it did not exist, with one exception: its id cannot be taken, because the record would be overwritten.

import { QuiverError } from "@quiverdb/protocol/errors";
import type { Filter as GivenFilter } from "@quiverdb/protocol/shapes/filter";
import { text } from "../base/bytes.ts";
import { finishAtOnce } from "../base/steps.ts";
import { invalidFilter } from "../filter/condition.ts";
import { both, type Filter, type IsTime, leavesOf, withTimes } from "../filter/filter.ts";
import { Predicate } from "../filter/predicate.ts";
import { readFilter } from "../filter/read-filter.ts";
import type { Reader } from "../storage/store.ts";
import { type Operation, RecordReader, readOperations, storedRecord } from "./record.ts";

/** The filter of a caller. Can be posted to another thread. */
export type WriterKeyFilter = {
  readonly filter: unknown;
  /** Fields that are compared by time. */
  readonly times: readonly string[];
  /** Whether messages name a record without its position: the request has one. */
  readonly isSingle?: boolean;
};

export class KeyFilter {
  /** As it was given: JSON. */
  readonly given: GivenFilter;
  readonly #filter: Filter;

  /** @throws invalid_filter */
  constructor(given: GivenFilter) {
    const read = finishAtOnce(readFilter(given));
    if (read === null || leavesOf(read).length === 0)
      throw invalidFilter("filter", "has no condition; a key without a filter sees every record.");
    this.given = given;
    this.#filter = read;
  }

  /** @throws invalid_filter where an operand is compared by time and is none */
  at(isTime: IsTime): Filter {
    return withTimes(this.#filter, isTime);
  }

  /** For the writer. */
  toWriter(isTime: IsTime): WriterKeyFilter {
    const times = leavesOf(this.#filter).flatMap(({ field }) => (isTime(field.name) ? [field.name] : []));
    return { filter: this.given, times };
  }
}

/** Checks a filter for `Database.restrictedTo`. @throws invalid_filter */
export function checkFilterOfKey(given: GivenFilter): void {
  new KeyFilter(given);
}

/** What both allow; null stands for every record. */
export function within(keyFilter: KeyFilter | null, filter: Filter | null, isTime: IsTime): Filter | null {
  return both(keyFilter?.at(isTime) ?? null, filter);
}

/** The filter that the writer was sent. */
export function filterOfKey({ filter, times }: WriterKeyFilter): Filter {
  const read = finishAtOnce(readFilter(filter)) as Filter;
  return withTimes(read, (field) => times.includes(field));
}

/** The rules for a write of a caller. */
export class KeyFilterRules {
  readonly #reader: Reader;
  readonly #predicate: Predicate;
  readonly #isSingle: boolean;

  constructor(reader: Reader, keyFilter: WriterKeyFilter) {
    this.#reader = reader;
    this.#predicate = new Predicate(filterOfKey(keyFilter));
    this.#isSingle = keyFilter.isSingle ?? false;
  }

  /** Whether a live record has the id and is visible to the caller. */
  sees(id: Uint8Array): boolean {
    const ordinal = this.#reader.get("ids", id);
    return ordinal !== undefined && this.seesAt(ordinal.slice());
  }

  /** Whether the live record of an ordinal is visible. */
  seesAt(ordinal: Uint8Array): boolean {
    const stored = this.#reader.get("records", ordinal);
    return stored !== undefined && this.#predicate.matches(new RecordReader(stored));
  }

  /** @throws forbidden if an upsert writes a record that the caller could not see, or overwrites one that it cannot see */
  requireWritable(batch: Uint8Array): void {
    // The first rule comes first for all: its answer does not depend on what exists.
    let position = 0;
    for (const operation of readOperations(batch)) {
      if (!this.#matches(operation)) throw this.#outside(position);
      position++;
    }
    position = 0;
    for (const { kind, id } of readOperations(batch)) {
      if (kind === "upsert")
        this.#requireFree(id, () => (this.#isSingle ? "The record's id" : `vectors[${position}].id`), {
          path: this.#isSingle ? "id" : `vectors[${position}].id`,
        });
      position++;
    }
  }

  /** @throws forbidden if a patch takes a record out of the caller's sight */
  requireStillVisible(operation: Operation): void {
    if (this.#matches(operation)) return;
    const id = text(operation.id);
    throw new QuiverError(
      "forbidden",
      `The change would take the record '${id.slice(0, 80)}' out of the filter of the key; nothing was changed. Leave the fields that the filter asks for as they are.`,
      { vector_id: id },
    );
  }

  /**
   * @throws forbidden if the commit of the open transaction would change a record that the caller cannot see. The transaction stays open: it
   * cannot be committed while that record exists, but what it has is lost only if the caller aborts it.
   */
  requireCommittable(): void {
    for (const id of this.#reader.keys("stagedIds")) {
      const own = id.slice();
      if (this.#isFree(own)) continue;
      throw new QuiverError(
        "forbidden",
        `The id '${text(own).slice(0, 80)}' of the transaction has become unavailable to the key; nothing was changed, and the transaction is still open. Abort it, and send its other operations in a new one.`,
        { vector_id: text(own) },
      );
    }
  }

  #matches(operation: Operation): boolean {
    if (operation.kind === "delete") return true;
    return this.#predicate.matches(new RecordReader(storedRecord(operation, 1)));
  }

  /** Whether no hidden record has the id. */
  #isFree(id: Uint8Array): boolean {
    return this.#reader.get("ids", id) === undefined || this.sees(id);
  }

  #requireFree(id: Uint8Array, what: () => string, details: Record<string, unknown>): void {
    if (this.#isFree(id)) return;
    throw new QuiverError(
      "forbidden",
      `${what()} is not available to the key; nothing was changed. Use another id.`,
      details,
    );
  }

  #outside(position: number): QuiverError {
    const what = this.#isSingle ? "The record" : `vectors[${position}]`;
    return new QuiverError(
      "forbidden",
      `${what} does not match the filter of the key, which allows it only to write records that match; nothing was changed.`,
      { path: this.#isSingle ? "metadata" : `vectors[${position}]` },
    );
  }
}
