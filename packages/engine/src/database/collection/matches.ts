// How are the records that match a filter counted, listed and read?
//
// Each call reads one version: that of the current view, with its indexes, where it is new enough, otherwise the newest.

import { createCipheriv, createDecipheriv, createHmac, hash, randomBytes } from "node:crypto";
import { QuiverError } from "@quiverdb/protocol/errors";
import { checkFields } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import { metadataPrefix } from "@quiverdb/protocol/shapes/index-definition";
import {
  type Count,
  CountMatching,
  type Facets,
  FacetVectors,
  FetchVectors,
  ScrollVectors,
} from "@quiverdb/protocol/shapes/matching";
import type { Warning } from "@quiverdb/protocol/shapes/warning";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import type { Steps } from "../../base/steps.ts";
import { type IndexDefinitions, readIndexDefinitions } from "../../collection/apply.ts";
import { collectionIdOf } from "../../collection/definition.ts";
import { type KeyFilter, within } from "../../collection/key-filter.ts";
import { ordinalOf, type Sees, type StoredVector, vectorAt } from "../../collection/reading.ts";
import { checkId } from "../../collection/schema.ts";
import { type Filter, keyOf, timesOf, withTimes } from "../../filter/filter.ts";
import { Predicate } from "../../filter/predicate.ts";
import { readField, readFilter } from "../../filter/read-filter.ts";
import { invalid } from "../../index/definition-checks.ts";
import type { Field } from "../../metadata/field.ts";
import { facetsOf } from "../../query/facets.ts";
import { everyRecord, type FilteredVersion } from "../../query/filter/matching.ts";
import { type Found, facetWarnings, findVisible, told } from "../../query/filter/warnings.ts";
import { checkInclude, requireNoVersion } from "../../query/plan.ts";
import { type Order, type PageEnd, pageById, pageByValue } from "../../query/scroll.ts";
import type { RecordPage } from "../contract.ts";
import type { CollectionState } from "./state.ts";

export class Matches {
  readonly #state: CollectionState;

  constructor(state: CollectionState) {
    this.#state = state;
  }

  async count(
    request: CountMatching = {},
    options?: CallOptions,
    keyFilter: KeyFilter | null = null,
  ): Promise<Count> {
    checkFields(CountMatching, request);
    return this.#read(request.filter, keyFilter, options, countIn);
  }

  async facet(
    request: FacetVectors,
    options?: CallOptions,
    keyFilter: KeyFilter | null = null,
    limit = facetLimit(request),
  ): Promise<Facets> {
    checkFields(FacetVectors, request);
    const fields = facetFields(request);
    return this.#read(request.filter, keyFilter, options, (what) => facetsIn(what, request, fields, limit));
  }

  async scroll(
    request: ScrollVectors = {},
    options?: CallOptions,
    reader = "",
    keyFilter: KeyFilter | null = null,
  ): Promise<RecordPage> {
    return this.scrollBy(request, options, reader, keyFilter, (page) =>
      this.page(request.filter, page, options, keyFilter),
    );
  }

  /** A page of a scroll. @param read reads what is on it */
  async scrollBy(
    request: ScrollVectors,
    options: CallOptions | undefined,
    reader: string,
    keyFilter: KeyFilter | null,
    read: (page: ScrollPage) => Promise<ReadPage>,
  ): Promise<RecordPage> {
    checkFields(ScrollVectors, request);
    checkInclude(request.include);
    if (keyFilter !== null) requireNoVersion(request.include);
    const limit = integerOf(request.limit, "limit", limits.fetchedMax, limits.scrollDefault);
    const { cursor = null, order_by } = request;
    const { entry, dependencies } = this.#state;
    const definitions = this.#state.read((readTxn) => readIndexDefinitions(readTxn));
    const given = await Deadline.of(options).task.finish(readFilter(request.filter));
    const filter = given && withTimes(given, timesOf(definitions));
    const order = order_by && !isById(order_by) ? orderOf(order_by, definitions) : null;
    const owners = [collectionIdOf(entry.pastOf ?? entry.internalId), reader] as const;
    const cursors = new ScrollCursors(dependencies.secret(), owners, order, filter);
    const after = cursor === null ? null : cursors.read(cursor);
    const { vectors, end, ...found } = await read({ limit, after, order });
    return { vectors, next_cursor: end && cursors.make(end), ...told(found) };
  }

  /** Reads a page of the records that match. */
  page(
    filter: unknown,
    page: ScrollPage,
    options?: CallOptions,
    keyFilter: KeyFilter | null = null,
  ): Promise<ReadPage> {
    return this.#read(filter, keyFilter, options, (what) => pageIn(what, page));
  }

  async fetch(
    request: FetchVectors,
    options?: CallOptions,
    keyFilter: KeyFilter | null = null,
  ): Promise<(StoredVector | null)[]> {
    checkFields(FetchVectors, request);
    checkInclude(request.include);
    if (keyFilter !== null) requireNoVersion(request.include);
    const { ids } = request;
    if (!Array.isArray(ids)) throw invalid("ids", "must be an array of ids.");
    if (ids.length > limits.fetchedMax)
      throw invalid("ids", `has ${ids.length} ids, at most ${limits.fetchedMax} are allowed.`);
    for (const [i, id] of ids.entries()) checkId(id, `ids[${i}]`);
    return this.#read(null, keyFilter, options, ({ version, wanted }) =>
      vectorsOf(version, ids, wanted && new Predicate(wanted)),
    );
  }

  /** Reads one version, in steps. */
  #read<T>(
    given: unknown,
    keyFilter: KeyFilter | null,
    options: CallOptions | undefined,
    read: (what: ReadVersion) => Steps<T>,
  ): Promise<T> {
    return this.#state.gate.pass(async () => {
      const { task, atVersion } = Deadline.of(options);
      const filter = await task.finish(readFilter(given));
      const { version, definitions, live, release } = this.#state.filtered(atVersion);
      try {
        const isTime = timesOf(definitions);
        const wanted = within(keyFilter, filter && withTimes(filter, isTime), isTime);
        return await task.finish(read({ version, live, wanted, keyFilter }));
      } finally {
        release();
      }
    });
  }
}

/** Which page: so many records, behind a place, in an order (null: by id). */
export type ScrollPage = {
  readonly limit: number;
  readonly after: PageEnd | null;
  readonly order: Order | null;
};

/** The records of a page, where each comes, and the page's end if there are more. */
export type ReadPage = {
  readonly vectors: readonly StoredVector[];
  readonly places: readonly PageEnd[];
  readonly end: PageEnd | null;
  readonly warnings: readonly Warning[];
};

/** @throws invalid_request */
export const facetLimit = ({ limit }: FacetVectors): number =>
  integerOf(limit, "limit", limits.facetMax, limits.facetDefault);

/** What is read, and its number of live records. */
type ReadVersion = {
  readonly version: FilteredVersion;
  readonly live: number;
  /** The filter of the request together with that of the caller; null: none. */
  readonly wanted: Filter | null;
  readonly keyFilter: KeyFilter | null;
};

function* matchesIn({ version, wanted, keyFilter }: ReadVersion): Steps<Found | null> {
  return wanted && (yield* findVisible(version, wanted, keyFilter));
}

function* countIn(what: ReadVersion): Steps<Count> {
  const found = yield* matchesIn(what);
  return { count: found?.set.count ?? what.live, ...told(found) };
}

function* facetsIn(
  what: ReadVersion,
  request: FacetVectors,
  fields: readonly Field[],
  limit: number,
): Steps<Facets> {
  const { version } = what;
  const matching = yield* matchesIn(what);
  const found = matching ?? (yield* everyMatch(version));
  const all = yield* facetsOf(version, fields, found.set, limit);
  const facets =
    request.fields == null ? all[0] : Object.fromEntries(request.fields.map((name, i) => [name, all[i]]));
  if (matching !== null || found.set.count === 0) return { facets, ...told(found) };
  const absent = fields.flatMap((field, i) =>
    field.record === undefined && all[i].length === 0
      ? [[field, request.fields == null ? "field" : `fields[${i}]`] as const]
      : [],
  );
  return { facets, ...told({ warnings: yield* facetWarnings(version, absent) }) };
}

function* pageIn(what: ReadVersion, { limit, after, order }: ScrollPage): Steps<ReadPage> {
  const { version } = what;
  const found = yield* matchesIn(what);
  const { ordinals, places, end } =
    order === null
      ? yield* pageById(version, found?.set ?? null, limit, after)
      : yield* pageByValue(version, (found ?? (yield* everyMatch(version))).set, limit, after, order);
  const vectors = yield* vectorsAt(version, ordinals);
  return { vectors, places, end, warnings: found?.warnings ?? [] };
}

const everyMatch = (version: FilteredVersion): Steps<Found> => findVisible(version, everyRecord, null);

/** @throws invalid_request unless there is one of the two; invalid_filter for what is no field */
function facetFields({ field, fields }: FacetVectors): Field[] {
  if ((field == null) === (fields == null))
    throw invalid(
      "field",
      field == null
        ? 'is missing, and so is fields; expected one of the two, such as "field": "color" or "fields": ["color", "size"].'
        : "is given, and so is fields; expected one of the two.",
    );
  if (fields == null) return [readField(field, "field")];
  if (!Array.isArray(fields) || fields.length === 0 || fields.length > limits.facetFieldsMax)
    throw invalid("fields", `must be an array of 1 to ${limits.facetFieldsMax} names of fields.`);
  return fields.map((name, i) => readField(name, `fields[${i}]`));
}

function integerOf(value: number | null | undefined, path: string, most: number, otherwise: number): number {
  if (value === null || value === undefined) return otherwise;
  if (Number.isInteger(value) && value >= 1 && value <= most) return value;
  throw invalid(path, `is ${value}; expected an integer from 1 to ${most}.`);
}

type OrderBy = NonNullable<ScrollVectors["order_by"]>;

/** Whether it says the order that there is without it. */
const isById = ({ field, direction }: OrderBy): boolean => field === "id" && direction !== "desc";

/** @throws invalid_request, index_not_found if the field is not declared */
function orderOf({ field: name, direction }: OrderBy, definitions: Readonly<IndexDefinitions>): Order {
  const field = readField(name, "order_by.field");
  if (field.record !== undefined) {
    const what =
      field.record === "id"
        ? "ids are listed in ascending order only; leave out order_by"
        : `records are not kept in this order; store it in a field of the metadata too, and order by that`;
    throw invalid(
      "order_by",
      `is by '${field.record}': ${what}. The metadata key of this name is '\\${field.record}'.`,
    );
  }
  const definition = definitions[`${metadataPrefix}${field.name}`];
  if (definition === undefined)
    throw new QuiverError(
      "index_not_found",
      `order_by.field has no metadata index, which says how its values are ordered. Declare its type with PUT .../metadata-indexes/${inPath(field.name)} and a body such as {"type": "number"}.`,
      { path: "order_by.field" },
    );
  return { field, type: definition.type, isDescending: direction === "desc" };
}

/** A field as a part of a path, if it is not long, and text that a path can have. */
const inPath = (name: string): string =>
  name.length <= 100 && name.isWellFormed() ? encodeURIComponent(name) : "{field}";

/** Records that are read at a step. */
const recordsPerStep = 32;

function* vectorsAt(version: FilteredVersion, ordinals: readonly number[]): Steps<StoredVector[]> {
  const vectors: StoredVector[] = [];
  const size = new Size();
  for (const ordinal of ordinals)
    if (vectors.push(size.add(vectorAt(version.readTxn, ordinal))) % recordsPerStep === 0) yield;
  return vectors;
}

function* vectorsOf(
  { readTxn }: FilteredVersion,
  ids: readonly string[],
  sees: Sees,
): Steps<(StoredVector | null)[]> {
  const vectors: (StoredVector | null)[] = [];
  const size = new Size();
  for (const id of ids) {
    const ordinal = ordinalOf(readTxn, id, sees);
    const vector = ordinal === undefined ? null : size.add(vectorAt(readTxn, ordinal));
    if (vectors.push(vector) % recordsPerStep === 0) yield;
  }
  return vectors;
}

/** The bytes of an answer. */
class Size {
  #bytes = 0;

  /** @throws invalid_request if it is more than one answer may have */
  add(vector: StoredVector): StoredVector {
    this.#bytes += vector.bytes;
    if (this.#bytes <= limits.documentBytesMax) return vector;
    throw new QuiverError(
      "invalid_request",
      `The records have more than ${limits.documentBytesMax} bytes together. Ask for fewer at a time.`,
      { path: "limit", limit_bytes: limits.documentBytesMax },
    );
  }
}

// ---- Of which scroll is a cursor, and where does its page begin?
//
//   nonce, 12 bytes | JSON [order, filter, id, value], encrypted | tag, 16 bytes      in base64url
//
// A cursor names a record, so nobody but the database can read it (AES-256-GCM), or make one. Its key is made of a secret of the data
// directory, of the collection's internal id and of the reader: the cursor of another collection, of one that has replaced this one, or of
// another reader cannot be opened. With another order or filter a cursor would list some records twice and others never, so both are
// compared.

const cipher = "aes-256-gcm";
const nonceBytes = 12;
const tagBytes = 16;

/** What a cursor holds. A value is written as a text: JSON has no infinity. */
type Held = [order: string, filter: string, id: string, value?: string];

/** Makes and reads the cursors of one scroll. */
class ScrollCursors {
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
