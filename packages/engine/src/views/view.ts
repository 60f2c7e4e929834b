// Which version do searches see, and how long does it stay readable?
//
// A `View` is one version of a collection that all its indexes contain, with the read transaction of the store at that version. Indexing
// publishes views. A search pins one view for all its legs and fetches, so it sees one version, whatever is written or indexed
// meanwhile (invariant 2).
//
//   published --pin--> pinned (n searches) --unpin--> ... --replaced and unpinned--> released
//
// The next view replaces the current one. A replaced view lives until its last search ends. Records that were closed after the oldest
// living view must stay in the indexes (collection/visibility.ts).
//
// Other threads search, too. Each publication of a view is an epoch (base/epochs.ts). A living view pins its epoch, in slot 0; another
// thread is posted what `shared` says of a view, and pins its epoch in a slot of its own:
//
//   owner         publish: epoch e    change, retire(free X)    publish: epoch e + 1              reclaim: frees X
//   other thread  attach to e, pin e ......... may still meet X ..................... unpin e --^
//
// A thread that is pinned to an epoch finds all that its version sees where the posted view says, until it unpins. So
//   - a record is removed from the indexes only when no version sees it that may be pinned (`oldestVersion`);
//   - memory that a search may still find something in is used for something else only through `retire`.
//
// What is posted of a view is everything that a search of another thread depends on. It changes without a write, too: graphs grow, are
// replaced and are measured, caches are filled, segments are merged. `refresh` compares what was posted with what would be posted now; if
// they differ, other threads look again: on the board, which has the numbers of the newest view (board.ts), or they ask the owner. So nobody
// who changes an index has to announce it:
//
//   posted                                   changes without a write                           looked for again by
//   indexes: graphs, tail, cache, codes      linking, calibration, replacement, eviction       refresh
//   indexes: beam, scanning, far score       measuring recall                                  refresh
//   indexes: segments, dictionaries          freezing, merging                                 refresh, and the next epoch
//   statistics, visibility                   never: they are of the version                    the next version
//   definitions (a field that is a time)     adding or dropping an index                       renew, withdraw
//   matches of filters                       with the definitions                              renew
//   table of beams for a recall target       measuring it                                      never: such searches go to the owner
//
// view.test.ts tries every sort of change. threads.test.ts has a thread that searched while the graph was young, one that asked while records
// were in no graph, declared times and the matches of filters, and deleted indexes; the hammer (testing/hammer) has segments and dictionaries
// that are frozen and merged under searches.
//
// The indexer calls `refresh` when it has nothing more to do, soon after each progress of builders, when a version is complete, and before
// it reports the status of an index: a status is never ahead of what threads search.

import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { EpochReader, Epochs, isBefore, type SharedEpochs } from "../base/epochs.ts";
import { invariant } from "../base/invariant.ts";
import { RecordIdCache } from "../collection/record-id-cache.ts";
import type { SharedVisibility, Visibility, VisibleAt } from "../collection/visibility.ts";
import type { Index } from "../index/contract.ts";
import { kindNamed } from "../index/registry.ts";
import type { Reader, ReadTransaction } from "../storage/store.ts";
import { Board, isAlike, type SharedBoard } from "./board.ts";

/** The indexes of a view. Kinds that the collection does not have are absent. */
export type LiveIndexes = Readonly<Partial<Record<IndexKind, Index>>>;

/** What is published of a version. */
export type ViewFields = Pick<View, "version" | "ordinalEnd" | "readTxn" | "indexes" | "statistics">;

/** What a search uses of a view: a `View`, or in another thread what is attached to one. */
export interface SearchedView {
  readonly version: number;
  /** Of this version or a later one: the record of an ordinal is the same in all that have it. */
  readonly readTxn: Reader;
  readonly recordIds: RecordIdCache;
  /** The statistics of its indexes when the version was current (`Index.statistics`). */
  readonly statistics: Readonly<Partial<Record<IndexKind, unknown>>>;
  /** Tests whether an ordinal is visible at this version; null if all are. Get it again after every await. */
  readonly visible: VisibleAt | null;
  /** What searches of a kind read; undefined if it has no such index. */
  readerOf(kind: IndexKind): object | undefined;
  unpin(): void;
}

/** A view as it is posted to a thread, which pins `epoch` before it attaches to anything (`Kind.attach`). */
export type SharedView = {
  readonly epochs: SharedEpochs;
  readonly epoch: number;
  /** It is not for new searches any more when another number is in the table of epochs (`EpochReader.withdrawn`). */
  readonly withdrawn: number;
  readonly version: number;
  readonly ordinalEnd: number;
  readonly visibility: SharedVisibility;
  /** Descriptors, of the kinds that other threads can search. */
  readonly indexes: Readonly<Partial<Record<IndexKind, object>>>;
  readonly statistics: Readonly<Partial<Record<IndexKind, unknown>>>;
};

export class View implements SearchedView {
  readonly version: number;
  readonly epoch: number;
  readonly #epochs: Epochs;
  /** `Epochs.withdrawn` when it was published, or renewed. */
  #withdrawn: number;
  /** The next unused ordinal at this version. */
  readonly ordinalEnd: number;
  readonly readTxn: ReadTransaction;
  /** Shared by all views of the collection. */
  readonly recordIds: RecordIdCache;
  readonly indexes: LiveIndexes;
  /** The statistics of its indexes when the version was current (`Index.statistics`). */
  readonly statistics: Readonly<Partial<Record<IndexKind, unknown>>>;
  readonly #visibility: Visibility;
  #pins = 1;
  /** The descriptors that other threads have, since the last renewal. */
  #posted: SharedView["indexes"] | undefined;
  readonly #onRelease: (view: View) => void;

  constructor(
    fields: ViewFields,
    epoch: number,
    epochs: Epochs,
    visibility: Visibility,
    recordIds: RecordIdCache,
    onRelease: (view: View) => void,
  ) {
    this.version = fields.version;
    this.epoch = epoch;
    this.#epochs = epochs;
    this.#withdrawn = epochs.withdrawn;
    this.ordinalEnd = fields.ordinalEnd;
    this.readTxn = fields.readTxn;
    this.recordIds = recordIds;
    this.indexes = fields.indexes;
    this.statistics = fields.statistics;
    this.#visibility = visibility;
    this.#onRelease = onRelease;
  }

  /** Tests whether an ordinal is visible at this version; null if all are. Get it again after every await. */
  get visible(): VisibleAt | null {
    return this.#visibility.at(this.version, this.ordinalEnd);
  }

  get #descriptors(): SharedView["indexes"] {
    const descriptors: Partial<Record<IndexKind, object>> = {};
    for (const [kind, index] of Object.entries(this.indexes) as [IndexKind, Index][]) {
      const descriptor = kindNamed(kind).descriptor?.(index);
      if (descriptor !== undefined) descriptors[kind] = descriptor;
    }
    return descriptors;
  }

  /** What another thread needs to search this view; made anew by each call. The view must live. */
  get shared(): SharedView {
    invariant(this.#pins > 0, "a released view is shared");
    const { epoch, version, ordinalEnd, statistics } = this;
    const indexes = this.#descriptors;
    this.#renewUnless(indexes);
    this.#posted = indexes;
    const visibility = this.#visibility.shared;
    const epochs = this.#epochs.shared;
    const withdrawn = this.#withdrawn;
    return { epochs, epoch, withdrawn, version, ordinalEnd, visibility, indexes, statistics };
  }

  /** Of what was posted of it, other threads shall use only what is posted from now on. */
  renew(): void {
    this.#posted = undefined;
    this.#epochs.withdraw();
    this.#withdrawn = this.#epochs.withdrawn;
  }

  /** Renews it if other threads have been posted anything else than they would be now. @returns whether it did */
  refresh(): boolean {
    const before = this.#withdrawn;
    if (this.#posted !== undefined) this.#renewUnless(this.#descriptors);
    return this.#withdrawn !== before;
  }

  /** Other threads may still search by what they were posted of the view before this one. */
  follow(before: View): void {
    this.#posted = before.#posted;
  }

  #renewUnless(indexes: SharedView["indexes"]): void {
    if (this.#posted !== undefined && !isAlike(this.#posted, indexes, Object.is)) this.renew();
  }

  readerOf(kind: IndexKind): object | undefined {
    const index = this.indexes[kind];
    return index?.reader ?? index;
  }

  has(kind: IndexKind): boolean {
    return this.indexes[kind] !== undefined;
  }

  /** Whether it is at `version` or later, and has these indexes. */
  serves(version: number, kinds: readonly IndexKind[]): boolean {
    return this.version >= version && kinds.every((kind) => this.has(kind));
  }

  pin(): this {
    invariant(this.#pins > 0, "a released view is pinned");
    this.#pins++;
    return this;
  }

  unpin(): void {
    invariant(this.#pins > 0, "a view is unpinned too often");
    if (--this.#pins > 0) return;
    this.readTxn.release();
    this.#onRelease(this);
  }
}

/** The living views of a collection. */
export class Views {
  readonly recordIds: RecordIdCache;
  #current: View | null = null;
  readonly #board = new Board<SharedView>();
  readonly #living = new Set<View>();
  readonly #epochs: Epochs;
  /** The pins of this thread. */
  readonly #pins: EpochReader;
  /** The versions of epochs that may be pinned, ascending. */
  readonly #versions = new Map<number, number>();
  #hasRetired = false;
  readonly #onOldestReleased: () => void;

  /**
   * @param onOldestReleased called when closed records may have become removable
   * @param readerSlots other threads that may search at a time
   */
  constructor(onOldestReleased: () => void, readerSlots = 0, recordIds = new RecordIdCache()) {
    this.recordIds = recordIds;
    this.#onOldestReleased = onOldestReleased;
    this.#epochs = new Epochs(1 + readerSlots);
    this.#pins = new EpochReader(this.#epochs.shared, 0);
  }

  get current(): View | null {
    return this.#current;
  }

  /** What another thread needs to pin epochs. */
  get sharedEpochs(): SharedEpochs {
    return this.#epochs.shared;
  }

  /** The smallest version that a search may still see, in any thread; Infinity before the first view. */
  get oldestVersion(): number {
    const floor = this.#epochs.raiseFloor();
    for (const epoch of this.#versions.keys()) {
      if (!isBefore(epoch, floor)) break;
      this.#versions.delete(epoch);
    }
    return this.#versions.get(floor) ?? Number.POSITIVE_INFINITY;
  }

  /** Whether a search of this thread may still be using an index. */
  uses(index: Index): boolean {
    for (const view of this.#living)
      if (Object.values(view.indexes).some((held) => held === index)) return true;
    return false;
  }

  /** Frees something that searches of the next view cannot find, when no search can that has begun before it. */
  retire(free: () => void): void {
    this.#hasRetired = true;
    this.#epochs.retire(free);
  }

  /** Whether anything was retired since the current view was published: it is freed only after the next one. */
  get hasRetired(): boolean {
    return this.#hasRetired;
  }

  /** Frees what no search can reach any more. */
  reclaim(): void {
    this.#epochs.reclaim();
  }

  /** Ends what a thread that has died had pinned. */
  abandon(slot: number): void {
    invariant(slot > 0, "the owner of the views abandons its own pins");
    for (const view of this.#living) for (const index of Object.values(view.indexes)) index?.abandon?.(slot);
    this.#epochs.abandon(slot);
    this.#onOldestReleased();
  }

  publish(fields: ViewFields, visibility: Visibility): View {
    invariant(
      this.#current === null || fields.version >= this.#current.version,
      "a view goes back to an older version",
    );
    this.#hasRetired = false;
    const epoch = this.#epochs.advance();
    invariant(this.#pins.tryPin(epoch), `the epoch ${epoch}, which begins, cannot be pinned`);
    this.#versions.set(epoch, fields.version);
    const view = new View(fields, epoch, this.#epochs, visibility, this.recordIds, (released) => {
      this.#living.delete(released);
      this.#pins.unpin(released.epoch);
      this.#epochs.reclaim();
      this.#onOldestReleased();
    });
    const previous = this.#current;
    if (previous !== null) view.follow(previous);
    this.#current = view;
    this.#living.add(view);
    previous?.unpin();
    this.#put();
    return view;
  }

  /** The board for a thread that is posted a view of these. */
  boardOf(view: SharedView): SharedBoard {
    const board = this.#board.of(view);
    // To post a view can renew it, and the board can have been empty.
    this.#put();
    return board;
  }

  /** Other threads that have been posted a view find the current one. */
  #put(): void {
    if (this.#board.isRead && this.#current !== null) this.#board.put(this.#current.shared);
  }

  /** Something was declared that other threads must know for their next searches: they ask again. */
  renew(): void {
    this.#board.clear();
    this.#current?.renew();
  }

  /** Other threads look again where what they search is, if that has changed. */
  refresh(): void {
    if (this.#current?.refresh() === true) this.#put();
  }

  /** Removes the current view, in all threads. Searches that pinned it continue. */
  withdraw(): void {
    this.#board.clear();
    this.#epochs.withdraw();
    const previous = this.#current;
    this.#current = null;
    previous?.unpin();
  }
}
