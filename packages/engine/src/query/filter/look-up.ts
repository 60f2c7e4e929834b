// Where does a search find the records that match its filter?

import type { Warning } from "@quiverdb/protocol/shapes/warning";
import type { Steps } from "../../base/steps.ts";
import { type Filter, keyOf } from "../../filter/filter.ts";
import type { OrdinalBitmap } from "../../index/ordinal-bitmap.ts";
import type { View } from "../../views/view.ts";
import { matchingRecords, nothingRead, visibleMatches } from "./matching.ts";
import { absentFields, absentWhereNoneMatch, fieldsOf, warningsOf } from "./warnings.ts";

export type FilterLookUp = {
  /** As a search takes them: ordinals that the version does not see can be among them. */
  matching(filter: Filter): Steps<FoundSet>;
  /** Those that the version sees. */
  visible(filter: Filter): Steps<OrdinalBitmap>;
  /** What is probably wrong with a filter that no record matches. */
  warnings(filter: Filter, found: FoundSet): Steps<Warning[]>;
  /** Names of fields that records have, as far as that is known without a walk over them. */
  fields(): Steps<string[]>;
};

/** In the metadata indexes and the records of a view, in the thread that owns it. */
export const lookUpIn = (view: View): FilterLookUp => ({
  matching: (filter) => matchesOf(view, filter),
  visible: (filter) => visibleMatches(view, filter),
  warnings: (filter, { absent }) => warningsOf(view, filter, absent),
  fields: () => fieldsOf(view),
});

// ---- Which sets of matches are known already?
//
// Requests of one application use few filters, again and again. The sets of a collection's newest version are remembered, so none goes out of
// date. That saves the look-ups in the indexes, or a scan of all records.

/** Bytes of the sets that are remembered for a collection. */
const bytesMax = 4 * 1024 * 1024;
/** Filters with longer keys are not remembered. */
const keyLengthMax = 4_096;

type KnownSet = {
  readonly set: OrdinalBitmap;
  /** Fields of the filter that nobody has (warnings.ts). */
  readonly absent: readonly string[];
};

class VersionSets {
  readonly version: number;
  /** The one that was used last is the last one. */
  readonly #sets = new Map<string, KnownSet>();
  #bytes = 0;

  constructor(version: number) {
    this.version = version;
  }

  get(key: string): KnownSet | undefined {
    const known = this.#sets.get(key);
    if (known === undefined) return undefined;
    this.#sets.delete(key);
    this.#sets.set(key, known);
    return known;
  }

  add(key: string, known: KnownSet): void {
    const bytes = known.set.words.byteLength;
    if (bytes > bytesMax || key.length > keyLengthMax || this.#sets.has(key)) return;
    this.#sets.set(key, known);
    this.#bytes += bytes;
    for (const [oldest, { set }] of this.#sets) {
      if (this.#bytes <= bytesMax) return;
      this.#sets.delete(oldest);
      this.#bytes -= set.words.byteLength;
    }
  }
}

/** By what all views of a collection share. */
const known = new WeakMap<object, VersionSets>();

/** The sets of the view's version; undefined if a newer one is remembered. */
function setsOf({ recordIds, version }: View): VersionSets | undefined {
  const sets = known.get(recordIds);
  if (sets !== undefined && sets.version >= version) return sets.version === version ? sets : undefined;
  const made = new VersionSets(version);
  known.set(recordIds, made);
  return made;
}

/** The matching records of a view, and how they were found. */
export type FoundSet = KnownSet & {
  /** Records that were read for it; undefined: an earlier request has found the set. */
  readonly recordsRead: number | undefined;
};

/** The matching records of a view, as a search takes them (matching.ts), in steps. */
function* matchesOf(view: View, filter: Filter): Steps<FoundSet> {
  const key = keyOf(filter);
  const sets = setsOf(view);
  const known = sets?.get(key);
  if (known !== undefined) return { ...known, recordsRead: undefined };
  const { readTxn, ordinalEnd, indexes } = view;
  const reads = nothingRead();
  const version = { readTxn, ordinalEnd, indexes, reads };
  const set = yield* matchingRecords(version, filter);
  const absent =
    set.count > 0
      ? absentFields(filter, indexes, reads)
      : yield* absentWhereNoneMatch(version, filter, reads);
  const found = { set, absent };
  sets?.add(key, found);
  return { ...found, recordsRead: reads.count };
}
