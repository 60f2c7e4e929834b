// Which records of a version match a filter?
//
// From what is known without reading records (metadata indexes, ids, documents) comes a set that contains every match, `within`; null: it
// may be any record. If that set is not exact, the records in it are read, one by one in steps, and tested.
//
//   {"id": {"in": [...]}}, {"id": {"prefix": "a"}}         exact, looked up
//   {"and": [{"document_id": "d"}, {"color": "red"}]}     the records of the document are read, if color has no index
//   {"color": "red"}                                      from its index; without one all records are read

import { limits } from "@quiverdb/protocol/limits";
import { concatenated, readU32Key, utf8 } from "../../base/bytes.ts";
import type { Steps } from "../../base/steps.ts";
import { RecordReader } from "../../collection/record.ts";
import { afterPrefix, documentKey, documentPrefix, ordinalKey } from "../../collection/tables.ts";
import type { VisibleAt } from "../../collection/visibility.ts";
import { OneOf } from "../../filter/equality.ts";
import type { Filter, Leaf } from "../../filter/filter.ts";
import { Predicate } from "../../filter/predicate.ts";
import { Prefix } from "../../filter/text-part.ts";
import { anyFieldIndex, indexOfField } from "../../index/field-index.ts";
import { BitmapBuilder, type OrdinalBitmap } from "../../index/ordinal-bitmap.ts";
import type { RecordField } from "../../metadata/field.ts";
import type { Reader } from "../../storage/store.ts";
import type { LiveIndexes } from "../../views/view.ts";

/** A version whose records are filtered, such as a view. */
export type FilteredVersion = {
  readonly readTxn: Reader;
  /** The next unused ordinal at this version. */
  readonly ordinalEnd: number;
  /** Its metadata indexes, by name, beside others; absent: none. They must stay those of the version during a step. */
  readonly indexes?: LiveIndexes;
  /** What is noted of the records that were read. */
  readonly reads?: Reads;
  /** Whether the version sees a record that its indexes hold; null: all. Get it again in each step. */
  readonly visible?: VisibleAt | null;
};

/** The records that were read to find matches. */
export type Reads = {
  count: number;
  /** Names of the metadata fields of the filter at which one of them has a value. */
  fields: readonly string[];
  /** Whether every record was tested. */
  isAll: boolean;
};

/** A note of nothing yet. */
export const nothingRead = (): Reads => ({ count: 0, fields: [], isAll: false });

/** The same version, of which is noted what is read. */
export const noting = (version: FilteredVersion, reads: Reads): FilteredVersion => ({
  readTxn: version.readTxn,
  ordinalEnd: version.ordinalEnd,
  indexes: version.indexes,
  reads,
  get visible() {
    return version.visible;
  },
});

/** The filter that every record matches. */
export const everyRecord: Filter = { kind: "and", parts: [] };

/** The matching records, in steps, as a search takes them: ordinals that the version does not see can be in the set, too. */
export function* matchingRecords(version: FilteredVersion, filter: Filter): Steps<OrdinalBitmap> {
  const { within, isExact } = yield* boundOf(version, filter);
  if (!isExact) return yield* readMatches(version, filter, within);
  return (within ?? new BitmapBuilder(version.ordinalEnd).complement()).finish();
}

/** The matching records that the version sees, and no other ordinals, in steps. */
export function* visibleMatches(version: FilteredVersion, filter: Filter): Steps<OrdinalBitmap> {
  const { within, isExact } = yield* boundOf(version, filter);
  if (!isExact) return yield* readMatches(version, filter, within);
  const held = anyFieldIndex(version.indexes)?.held;
  if (held === undefined) return yield* liveWithin(version, within);
  const found = (within ?? new BitmapBuilder(version.ordinalEnd).complement()).keepWords(
    held.words,
    Math.max(0, held.firstWord),
  );
  yield* hideInvisible(version, found);
  return found.finish();
}

/** Ordinals that are tested at a step. */
const testedPerStep = 8_192;

function* hideInvisible(version: FilteredVersion, found: BitmapBuilder): Steps<void> {
  let sees = version.visible ?? null;
  let tested = 0;
  if (sees === null) return;
  for (const ordinal of found.ordinals()) {
    if (sees !== null && !sees(ordinal)) found.remove(ordinal);
    if (++tested % testedPerStep !== 0) continue;
    yield;
    sees = version.visible ?? null;
  }
}

/** Keys that are read at a step. */
const keysPerStep = 512;

/** The live records of a set; null: all. */
function* liveWithin(version: FilteredVersion, within: BitmapBuilder | null): Steps<OrdinalBitmap> {
  const found = new BitmapBuilder(version.ordinalEnd);
  for (let start = 0, count = keysPerStep; count === keysPerStep; yield) {
    count = 0;
    for (const key of version.readTxn.keys("records", { start: ordinalKey(start), limit: keysPerStep })) {
      const ordinal = readU32Key(key);
      if (within === null || within.has(ordinal)) found.add(ordinal);
      start = ordinal + 1;
      count++;
    }
  }
  return found.finish();
}

/** The matches among some records, which are read; null: all. */
export function* readMatches(
  version: FilteredVersion,
  filter: Filter,
  within: BitmapBuilder | null,
): Steps<OrdinalBitmap> {
  const predicate = new Predicate(filter);
  const found = new BitmapBuilder(version.ordinalEnd);
  if (within === null) yield* addMatches(version, predicate, found);
  else yield* addMatchesWithin(version, predicate, within.ordinals(), found);
  if (version.reads !== undefined) {
    version.reads.fields = predicate.fieldsFound;
    version.reads.isAll = within === null;
  }
  return found.finish();
}

/** Records that are read at a step: one costs about a microsecond, more if it is large. */
const recordsPerStep = 32;

/** After this many missing ordinals in a row the next one is looked up, which takes longer than to find one missing. */
const missesMax = 16;

/** Reads a record by its key: that takes a third of the time of a cursor, because lmdb-js copies what a cursor reads. */
function storedRecord({ readTxn, reads }: FilteredVersion, ordinal: number): Uint8Array | undefined {
  const stored = readTxn.get("records", ordinalKey(ordinal));
  if (stored !== undefined && reads !== undefined) reads.count++;
  return stored;
}

function* addMatches(version: FilteredVersion, predicate: Predicate, found: BitmapBuilder): Steps<void> {
  const { readTxn, ordinalEnd } = version;
  for (let ordinal = 0, misses = 0, read = 0; ordinal < ordinalEnd; ordinal++) {
    const stored = storedRecord(version, ordinal);
    if (stored !== undefined) {
      misses = 0;
      if (predicate.matches(new RecordReader(stored))) found.add(ordinal);
    } else if (++misses === missesMax) {
      misses = 0;
      const [next] = readTxn.keys("records", { start: ordinalKey(ordinal), limit: 1 });
      ordinal = next === undefined ? ordinalEnd : readU32Key(next) - 1;
    }
    if (++read % recordsPerStep === 0) yield;
  }
}

function* addMatchesWithin(
  version: FilteredVersion,
  predicate: Predicate,
  ordinals: Iterable<number>,
  found: BitmapBuilder,
): Steps<void> {
  let read = 0;
  for (const ordinal of ordinals) {
    if (ordinal >= version.ordinalEnd) break;
    const stored = storedRecord(version, ordinal);
    if (stored !== undefined && predicate.matches(new RecordReader(stored))) found.add(ordinal);
    if (++read % recordsPerStep === 0) yield;
  }
}

/** A set that has every match; null: every record. Exact: each of its records that the version sees is a match. */
type Bound = { readonly within: BitmapBuilder | null; readonly isExact: boolean };

const unknown: Bound = { within: null, isExact: false };

function* boundOf(version: FilteredVersion, filter: Filter): Steps<Bound> {
  switch (filter.kind) {
    case "leaf":
      return yield* leafBound(version, filter);
    case "not":
      return negated(version, yield* boundOf(version, filter.part));
    case "and":
      return yield* boundOfAll(version, filter.parts);
    case "or":
      return yield* boundOfAny(version, filter.parts);
  }
}

function negated({ ordinalEnd }: FilteredVersion, { within, isExact }: Bound): Bound {
  if (!isExact) return unknown;
  return { within: within === null ? new BitmapBuilder(ordinalEnd) : within.complement(), isExact };
}

function* boundOfAll(version: FilteredVersion, parts: readonly Filter[]): Steps<Bound> {
  let within: BitmapBuilder | null = null;
  let isExact = true;
  for (const part of parts) {
    const next = yield* boundOf(version, part);
    isExact &&= next.isExact;
    if (within === null) within = next.within;
    else if (next.within !== null) {
      within.and(next.within);
      next.within.discard();
    }
    yield;
  }
  return { within, isExact };
}

function* boundOfAny(version: FilteredVersion, parts: readonly Filter[]): Steps<Bound> {
  const within = new BitmapBuilder(version.ordinalEnd);
  let isExact = true;
  for (const part of parts) {
    const next = yield* boundOf(version, part);
    isExact &&= next.isExact;
    if (next.within === null) return next.isExact ? next : unknown;
    within.or(next.within);
    next.within.discard();
    yield;
  }
  return { within, isExact };
}

function* leafBound(version: FilteredVersion, leaf: Leaf): Steps<Bound> {
  const { field, condition } = leaf;
  if (field.record !== undefined) {
    if (condition instanceof OneOf)
      return { within: yield* lookUpIds(version, field.record, condition), isExact: true };
    // As UTF-8, half a character would be another one.
    const isWalked =
      condition instanceof Prefix && condition.prefix !== "" && condition.prefix.isWellFormed();
    if (field.record !== "id" || !isWalked) return unknown;
    return { within: yield* idsWithPrefix(version, utf8(condition.prefix)), isExact: true };
  }
  const index = indexOfField(version.indexes, field);
  if (index === undefined) return unknown;
  const lookup = index.lookUp(version.ordinalEnd);
  const looked = condition.lookUp(lookup);
  const coverage = typeof looked === "string" ? looked : yield* looked;
  if (coverage === "none") lookup.present();
  const within = lookup.found;
  index.hide(within);
  if (coverage === "typed" && index.others.count > 0)
    yield* addMatchesWithin(version, new Predicate(leaf), index.others.ordinals(), within);
  return { within, isExact: coverage !== "none" };
}

/** Ids that are looked up, and records of documents that are listed, at a step. */
const lookupsPerStep = 64;

function* lookUpIds(
  { readTxn, ordinalEnd }: FilteredVersion,
  field: RecordField,
  { values }: OneOf,
): Steps<BitmapBuilder> {
  const ordinals: number[] = [];
  let looked = 0;
  for (const wanted of values) {
    // Half a character is no part of an id; as UTF-8 it would be another one.
    if (typeof wanted !== "string" || !wanted.isWellFormed()) continue;
    const id = utf8(wanted);
    if (id.length === 0 || id.length > limits.idBytesMax) continue;
    if (field === "id") {
      const found = readTxn.get("ids", id);
      if (found !== undefined) ordinals.push(readU32Key(found));
    } else yield* ordinalsOfDocument(readTxn, id, ordinals);
    if (++looked % lookupsPerStep === 0) yield;
  }
  const found = new BitmapBuilder(ordinalEnd);
  for (const ordinal of ordinals) found.add(ordinal);
  return found;
}

/** Ids that are read at a step. */
const idsPerStep = 512;

/** The records whose ids begin with these bytes: ids are stored in their order. No cursor stays open between steps. */
function* idsWithPrefix({ readTxn, ordinalEnd }: FilteredVersion, prefix: Uint8Array): Steps<BitmapBuilder> {
  const found = new BitmapBuilder(ordinalEnd);
  const end = afterPrefix(prefix);
  for (let start = prefix; ; yield) {
    let count = 0;
    let last = prefix;
    for (const [id, ordinal] of readTxn.entries("ids", { start, ...(end && { end }), limit: idsPerStep })) {
      found.add(readU32Key(ordinal));
      last = id;
      count++;
    }
    if (count < idsPerStep) return found;
    // The next possible id.
    start = concatenated([last, new Uint8Array(1)]);
  }
}

/** Appends the records of a document. No cursor stays open between steps. */
function* ordinalsOfDocument(readTxn: Reader, documentId: Uint8Array, found: number[]): Steps<void> {
  const prefix = documentPrefix(documentId);
  const end = afterPrefix(prefix);
  for (let start = prefix; ; yield) {
    let count = 0;
    // Entries, not keys: only the checksum of the value proves that the key is intact.
    for (const [key] of readTxn.entries("documents", { start, ...(end && { end }), limit: lookupsPerStep })) {
      found.push(readU32Key(key, prefix.length));
      count++;
    }
    if (count < lookupsPerStep) return;
    start = documentKey(documentId, found[found.length - 1] + 1);
  }
}
