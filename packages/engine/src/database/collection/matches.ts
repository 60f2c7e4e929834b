// How are the records that match a filter counted, listed and read?
//
// Each call reads one version: that of the current view, with its indexes, where it is new enough, otherwise the newest.

import { QuiverError } from "@quiverdb/protocol/errors";
import { checkFields } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import { metadataPrefix } from "@quiverdb/protocol/shapes/index-definition";
import {
  CountMatching,
  type Facets,
  FacetVectors,
  FetchVectors,
  ScrollVectors,
} from "@quiverdb/protocol/shapes/matching";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import type { Steps } from "../../base/steps.ts";
import type { IndexDefinitions } from "../../collection/apply.ts";
import { ordinalOf, type Sees, type StoredVector, vectorAt } from "../../collection/reading.ts";
import { type Rows, within } from "../../collection/rows.ts";
import { checkId } from "../../collection/schema.ts";
import { type Filter, timesOf, withTimes } from "../../filter/filter.ts";
import { Predicate } from "../../filter/predicate.ts";
import { readField, readFilter } from "../../filter/read-filter.ts";
import type { OrdinalBitmap } from "../../index/ordinal-bitmap.ts";
import { facetsOf } from "../../query/facets.ts";
import { everyRecord, type FilteredVersion, visibleMatches } from "../../query/filter/matching.ts";
import { checkInclude } from "../../query/plan.ts";
import { invalid } from "../../query/query-legs.ts";
import { type Order, pageById, pageByValue } from "../../query/scroll.ts";
import { ScrollMark } from "../../query/scroll-cursor.ts";
import type { RecordPage } from "../contract.ts";
import type { CollectionState } from "./state.ts";

export class Matches {
  readonly #state: CollectionState;

  constructor(state: CollectionState) {
    this.#state = state;
  }

  async count(request: CountMatching = {}, options?: CallOptions, rows: Rows | null = null): Promise<number> {
    checkFields(CountMatching, request);
    return this.#read(request.filter, rows, options, function* (version, filter, live) {
      return filter === null ? live : (yield* visibleMatches(version, filter)).count;
    });
  }

  async facet(
    request: FacetVectors,
    options?: CallOptions,
    rows: Rows | null = null,
  ): Promise<Facets["facets"]> {
    checkFields(FacetVectors, request);
    const limit = integerOf(request.limit, "limit", limits.facetMax, limits.facetDefault);
    const field = readField(request.field, "field");
    return this.#read(request.filter, rows, options, function* (version, filter) {
      return yield* facetsOf(version, field, yield* matchesOrAll(version, filter), limit);
    });
  }

  async scroll(
    request: ScrollVectors = {},
    options?: CallOptions,
    rows: Rows | null = null,
  ): Promise<RecordPage> {
    checkFields(ScrollVectors, request);
    checkInclude(request.include);
    const limit = integerOf(request.limit, "limit", limits.fetchedMax, limits.scrollDefault);
    const { cursor = null, order_by } = request;
    return this.#read(request.filter, rows, options, function* (version, filter, _live, definitions, own) {
      const order = order_by && !isById(order_by) ? orderOf(order_by, definitions) : null;
      const mark = new ScrollMark(order, own);
      const after = cursor === null ? null : mark.endOf(cursor);
      const page =
        order === null
          ? yield* pageById(version, filter && (yield* visibleMatches(version, filter)), limit, after)
          : yield* pageByValue(version, yield* matchesOrAll(version, filter), limit, after, order);
      return { vectors: yield* vectorsAt(version, page.ordinals), nextCursor: mark.mark(page.nextCursor) };
    });
  }

  async fetch(
    request: FetchVectors,
    options?: CallOptions,
    rows: Rows | null = null,
  ): Promise<(StoredVector | null)[]> {
    checkFields(FetchVectors, request);
    checkInclude(request.include);
    const { ids } = request;
    if (!Array.isArray(ids)) throw invalid("ids", "must be an array of ids.");
    if (ids.length > limits.fetchedMax)
      throw invalid("ids", `has ${ids.length} ids, at most ${limits.fetchedMax} are allowed.`);
    for (const [i, id] of ids.entries()) checkId(id, `ids[${i}]`);
    return this.#read(null, rows, options, function* (version, filter) {
      return yield* vectorsOf(version, ids, filter && new Predicate(filter));
    });
  }

  /** Reads one version, in steps. @param read is given the filter of the request together with that of its caller, and the former alone */
  #read<T>(
    given: unknown,
    rows: Rows | null,
    options: CallOptions | undefined,
    read: (
      version: FilteredVersion,
      filter: Filter | null,
      live: number,
      definitions: Readonly<IndexDefinitions>,
      own: Filter | null,
    ) => Steps<T>,
  ): Promise<T> {
    return this.#state.gate.pass(async () => {
      const { task } = Deadline.of(options);
      const filter = await task.finish(readFilter(given));
      const { version, definitions, live, release } = this.#state.filtered();
      try {
        const isTime = timesOf(definitions);
        const wanted = within(rows, filter && withTimes(filter, isTime), isTime);
        return await task.finish(read(version, wanted, live, definitions, filter));
      } finally {
        release();
      }
    });
  }
}

function matchesOrAll(version: FilteredVersion, filter: Filter | null): Steps<OrdinalBitmap> {
  return visibleMatches(version, filter ?? everyRecord);
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
      `order_by.field has no metadata index, which says how its values are ordered. Declare its type with PUT .../metadata-indexes/${encodeURIComponent(field.name)} and a body such as {"type": "number"}.`,
      { path: "order_by.field" },
    );
  return { field, type: definition.type, isDescending: direction === "desc" };
}

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
