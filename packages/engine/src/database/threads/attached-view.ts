// What does a serving thread read of a view that the owner has posted?
//
// The indexes are attached when a search needs them first. Records are read from the store, at its newest version: a record is the same in
// every version that has it. A record that the view sees and that was deleted since may be gone; then the owner answers the search
// (`NeedsOwner`).

import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { EpochReader } from "../../base/epochs.ts";
import { invariant } from "../../base/invariant.ts";
import type { IndexDefinitions } from "../../collection/apply.ts";
import type { RecordIdCache } from "../../collection/record-id-cache.ts";
import { type VisibleAt, visibleAt } from "../../collection/visibility.ts";
import type { OrdinalBitmap } from "../../index/ordinal-bitmap.ts";
import { kindNamed } from "../../index/registry.ts";
import type { Reader, ReadTransaction, Store } from "../../storage/store.ts";
import type { SearchedView, SharedView } from "../../views/view.ts";
import type { PostedView } from "./messages.ts";

/** Bytes of the matches of filters that are remembered of a view, and their number. The owner remembers the same ones (query/filter/look-up.ts). */
const matchBytesMax = 4 * 1024 * 1024;
const matchesMax = 1_024;

/** `isWarned`: there are none, and the owner knows why. */
type KnownMatches = { readonly set: OrdinalBitmap; readonly isWarned: boolean };

/** Only the owner can answer this search. */
export class NeedsOwner extends Error {
  override readonly name = "NeedsOwner";
}

export class AttachedView implements SearchedView {
  readonly version: number;
  readonly definitions: Readonly<IndexDefinitions>;
  readonly recordIds: RecordIdCache;
  readonly statistics: SharedView["statistics"];
  readonly readTxn: Reader;
  readonly visible: VisibleAt;
  readonly #shared: SharedView;
  readonly #slot: number;
  readonly #pins: EpochReader;
  readonly #readers = new Map<IndexKind, object>();
  readonly #records: NewestRecords;
  /** The matches of filters, by their keys, in the order of their first use. */
  readonly #matches = new Map<string, KnownMatches>();
  #matchBytes = 0;
  #pinned = 0;

  /**
   * @param slot of this thread
   * @param pins of this thread, of the table of the view's epochs
   */
  constructor(
    { view, definitions }: PostedView,
    slot: number,
    pins: EpochReader,
    store: Store,
    recordIds: RecordIdCache,
  ) {
    this.version = view.version;
    this.definitions = definitions;
    this.recordIds = recordIds;
    this.statistics = view.statistics;
    this.visible = visibleAt(view.visibility, view.version, view.ordinalEnd);
    this.#shared = view;
    this.#slot = slot;
    this.#pins = pins;
    this.#records = new NewestRecords(store);
    this.readTxn = this.#records;
  }

  /** Whether it is for new searches of these kinds that must see `version`. */
  serves(version: number, kinds: readonly IndexKind[]): boolean {
    if (this.version < version || this.#shared.withdrawn !== this.#pins.withdrawn) return false;
    return kinds.every((kind) => this.#shared.indexes[kind] !== undefined);
  }

  /** Whether the matches of so many filters can be remembered at a time. */
  mayRemember(filters: number): boolean {
    return (filters * this.#shared.ordinalEnd) / 8 <= matchBytesMax;
  }

  /** The records that match a filter; undefined: the owner knows. */
  matchesOf(key: string): OrdinalBitmap | undefined {
    return this.#matches.get(key)?.set;
  }

  /** Whether the owner has warnings for searches with a filter, whose matches are known. */
  isWarnedOf(key: string): boolean {
    return this.#matches.get(key)?.isWarned === true;
  }

  /** Remembers the matches of a filter, in place of the oldest ones where there are too many. */
  remember(key: string, matches: KnownMatches): void {
    if (this.#matches.has(key)) return;
    this.#matches.set(key, matches);
    this.#matchBytes += matches.set.words.byteLength;
    for (const [oldest, { set }] of this.#matches) {
      if (this.#matchBytes <= matchBytesMax && this.#matches.size <= matchesMax) return;
      this.#matches.delete(oldest);
      this.#matchBytes -= set.words.byteLength;
    }
  }

  /** Takes over what an earlier view of the same version knows, if that is still right. */
  rememberFrom(before: AttachedView): void {
    if (before.version !== this.version || !before.serves(this.version, [])) return;
    for (const [key, matches] of before.#matches) this.remember(key, matches);
  }

  /** Pins it for a search; false where what it reads may be gone. */
  tryPin(): boolean {
    if (!this.#pins.tryPin(this.#shared.epoch)) return false;
    this.#pinned++;
    return true;
  }

  unpin(): void {
    this.#pins.unpin(this.#shared.epoch);
    if (--this.#pinned === 0) this.#records.release();
  }

  readerOf(kind: IndexKind): object | undefined {
    let reader = this.#readers.get(kind);
    if (reader !== undefined) return reader;
    const descriptor = this.#shared.indexes[kind];
    if (descriptor === undefined) return undefined;
    reader = kindNamed(kind).attach?.(descriptor, this.#slot);
    invariant(reader !== undefined, `a ${kind} index was posted, which cannot be attached`);
    this.#readers.set(kind, reader);
    return reader;
  }
}

/** Records of the newest version, read by a transaction that begins with the first one and ends with `release`. */
class NewestRecords implements Reader {
  readonly #store: Store;
  #readTxn: ReadTransaction | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  get(table: string, key: Uint8Array): Uint8Array {
    this.#readTxn ??= this.#store.beginRead();
    const bytes = this.#readTxn.get(table, key);
    if (bytes === undefined) throw new NeedsOwner("a record of the view was deleted since");
    return bytes;
  }

  // A search reads single records only.
  entries(): never {
    throw new NeedsOwner("a search reads a range of the store");
  }

  keys(): never {
    throw new NeedsOwner("a search reads a range of the store");
  }

  release(): void {
    this.#readTxn?.release();
    this.#readTxn = undefined;
  }
}
