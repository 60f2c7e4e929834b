// How does a serving thread search a collection of another thread?
//
// It keeps the latest view that the owner has posted. The view serves a search if it has every version that was acknowledged when the search
// began, which one load from shared memory tells, and if nothing that it reads was freed, which pinning its epoch tells. Otherwise the
// thread takes the newest view from the board (views/board.ts), and if that does not serve either, it asks the owner; searches that need the
// same ask once.

import { isQuiverError } from "@quiverdb/protocol/errors";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { Deadline } from "../../base/deadline.ts";
import { EpochReader, tableNumber } from "../../base/epochs.ts";
import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import type { CollectionDefinition } from "../../collection/definition.ts";
import { RecordIdCache } from "../../collection/record-id-cache.ts";
import { collectionTables } from "../../collection/tables.ts";
import { type Filter, type IsTime, keyOf, writtenFilter } from "../../filter/filter.ts";
import type { LegBeam } from "../../index/kind.ts";
import { OrdinalBitmap } from "../../index/ordinal-bitmap.ts";
import type { Searched } from "../../query/answer.ts";
import type { FilterLookUp, FoundSet } from "../../query/filter/look-up.ts";
import type { Beam } from "../../query/plan.ts";
import { recallTargetOf } from "../../query/recall.ts";
import { LmdbStore } from "../../storage/lmdb.ts";
import { readBoard } from "../../views/board.ts";
import { AttachedView, NeedsOwner } from "./attached-view.ts";
import {
  type Attachable,
  type Caller,
  type PostedView,
  SharedState,
  type ViewAnswer,
  type ViewCall,
} from "./messages.ts";

/** Filters with longer keys are the owner's, and so are requests with more of them. */
const keyLengthMax = 4_096;
const filtersMax = 64;

/** A view that is asked for, with the matches of some filters by their keys. */
type Asked = { readonly needed: readonly IndexKind[]; readonly filters: ReadonlyMap<string, Filter> };
const noFilters: ReadonlyMap<string, Filter> = new Map();

/** How a thread asks the owner. */
export type Asking = {
  readonly slot: number;
  view(call: ViewCall, deadline: Deadline): Promise<ViewAnswer>;
  release(lease: number): void;
  /** Whether this many more bytes may be taken for ids of records. */
  mayTake(bytes: number): boolean;
};

/** The table of epochs that is in use, and this thread's pins in it. */
type Pins = { readonly table: number; readonly reader: EpochReader };

export class AttachedCollection implements Searched<AttachedView> {
  readonly name: string;
  readonly internalId: string;
  readonly definition: CollectionDefinition;
  readonly #asking: Asking;
  readonly #state: SharedState;
  readonly #store: LmdbStore;
  readonly #recordIds: RecordIdCache;
  #pins: Pins | undefined;
  #view: AttachedView | undefined;
  /** What it was made from. */
  #posted: PostedView | undefined;
  readonly #asked = new Map<string, Promise<AttachedView>>();
  /** Of posted views that the owner still pins. */
  readonly #leases = new Set<number>();
  #searches = 0;
  #onIdle: (() => void) | undefined;
  readonly #isSharded: boolean;
  #isClosing = false;

  constructor(attachable: Attachable, asking: Asking) {
    this.name = attachable.definition.name;
    this.internalId = attachable.internalId;
    this.definition = attachable.definition;
    this.#asking = asking;
    this.#isSharded = attachable.isSharded === true;
    this.#state = new SharedState(attachable.shared);
    this.#recordIds = new RecordIdCache((bytes) => asking.mayTake(bytes));
    this.#store = new LmdbStore(attachable.directory, collectionTables);
  }

  get identityBytes(): number {
    return this.#recordIds.memoryBytes;
  }

  /** Runs a search. @throws NeedsOwner */
  async search<T>(run: () => Promise<T>): Promise<T> {
    if (this.#isClosing) throw new NeedsOwner("the collection is being closed");
    if (this.#isSharded) throw new NeedsOwner("the collection has several shards");
    this.#state.countSearch();
    this.#searches++;
    try {
      return await run();
    } finally {
      if (--this.#searches === 0) this.#onIdle?.();
    }
  }

  acquireView(
    needed: readonly IndexKind[],
    deadline: Deadline,
    filters: readonly Filter[],
  ): AttachedView | Promise<AttachedView> {
    const wanted = this.#state.seenVersion;
    const asked = { needed, filters: filters.length === 0 ? noFilters : keyed(filters) };
    const view = this.#view?.serves(wanted, needed)
      ? this.#view
      : (this.#newest(wanted, needed) ?? this.#view);
    if (view?.mayRemember(asked.filters.size) === false)
      throw new NeedsOwner("the filters have too many matches");
    if (view?.serves(wanted, needed) && isKnown(view, asked) && view.tryPin()) return view;
    return this.#acquire(asked, wanted, deadline);
  }

  /** The view on the board, if it serves such a search. */
  #newest(wanted: number, needed: readonly IndexKind[]): AttachedView | undefined {
    const known = this.#posted;
    if (known?.board === undefined) return undefined;
    const view = readBoard(known.board, known.view);
    if (view === undefined) return undefined;
    const posted = { ...known, view };
    const newest = this.#made(posted);
    return newest.serves(wanted, needed) ? this.#keep(newest, posted) : undefined;
  }

  async #acquire(of: Asked, wanted: number, deadline: Deadline): Promise<AttachedView> {
    const what = [...of.needed, ...of.filters.keys()].join("\n");
    for (;;) {
      deadline.check();
      // One that was asked for earlier may be older than what this search must see.
      const asked = this.#asked.get(what);
      // If the one who asked had no time left, this search asks itself; if an index lags, it does so for both.
      const view = await (asked === undefined
        ? this.#ask(what, of, deadline)
        : deadline.race(asked.catch(unlessLagging)));
      if (view !== undefined && view.version >= wanted && view.tryPin()) return view;
      invariant(asked !== undefined, () => `the owner posts version ${view?.version}, after ${wanted}`);
    }
  }

  #ask(what: string, of: Asked, deadline: Deadline): Promise<AttachedView> {
    const asked = this.#attach(of, deadline).finally(() => this.#asked.delete(what));
    this.#asked.set(what, asked);
    return asked;
  }

  async #attach({ needed: kinds, filters }: Asked, deadline: Deadline): Promise<AttachedView> {
    const { name, internalId } = this;
    const written = [...filters.values()].map(writtenFilter);
    const call: ViewCall = { name, internalId, kinds, filters: written, caller: callerOf(deadline) };
    const answer = await this.#asking.view(call, deadline).catch((error: unknown) => {
      // The owner says where the fault stands in the request.
      throw isQuiverError(error, "invalid_filter") ? new NeedsOwner("a filter is refused") : error;
    });
    if (answer === undefined) throw new NeedsOwner("the collection was replaced");
    const { lease, posted, matching } = answer;
    this.#leases.add(lease);
    try {
      if (this.#isClosing) throw new NeedsOwner("the collection is being closed");
      const isSearchable = kinds.every((kind) => posted.view.indexes[kind] !== undefined);
      if (!isSearchable) throw new NeedsOwner("an index cannot be searched in other threads");
      const view = this.#keep(this.#made(posted), posted);
      for (const [i, key] of [...filters.keys()].entries()) {
        const { set, isWarned } = matching[i];
        view.remember(key, { set: OrdinalBitmap.attach(set), isWarned });
      }
      return view;
    } finally {
      // Whoever asked pins the view in the microtasks before the owner can free anything.
      setImmediate(() => this.#release(lease));
    }
  }

  #release(lease: number): void {
    if (this.#leases.delete(lease)) this.#asking.release(lease);
  }

  #made(posted: PostedView): AttachedView {
    const { epochs } = posted.view;
    const table = tableNumber(epochs);
    if (this.#pins?.table !== table)
      this.#pins = { table, reader: new EpochReader(epochs, this.#asking.slot) };
    return new AttachedView(posted, this.#asking.slot, this.#pins.reader, this.#store, this.#recordIds);
  }

  #keep(view: AttachedView, posted: PostedView): AttachedView {
    if (this.#view !== undefined) view.rememberFrom(this.#view);
    this.#view = view;
    this.#posted = posted;
    return view;
  }

  beamOfLegs({ exact, efSearch, recallTarget }: Beam, _k: number, view: AttachedView): LegBeam {
    if (exact || efSearch !== null) return { ef: efSearch ?? undefined };
    const target = recallTarget ?? recallTargetOf(view.definitions);
    if (target !== null) throw new NeedsOwner("the owner knows which beam reaches a recall");
    return { ef: undefined };
  }

  /** The owner has found the matches with the view, and tells what is wrong with a filter that has none. */
  lookUpIn(view: AttachedView): FilterLookUp {
    return {
      matching: (filter) => knownMatches(view, filter),
      warnings: (filter) => noWarnings(view, filter),
      visible: elsewhere,
      fields: elsewhere,
    };
  }

  /** The owner, who finds the matches, knows which fields are times. */
  isTime(): IsTime {
    return () => false;
  }

  /**
   * Closes the store when no search goes on. The owner learns before the answer that no view is pinned: afterwards it closes the store in
   * which its views read.
   */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#view = undefined;
    this.#posted = undefined;
    if (this.#searches > 0)
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    for (const lease of this.#leases) this.#release(lease);
    await this.#store.close();
  }
}

const unlessLagging = (error: unknown): undefined => {
  if (isQuiverError(error, "not_ready")) throw error;
};

// biome-ignore lint/correctness/useYield: what is known takes no steps.
function* knownMatches(view: AttachedView, filter: Filter): Steps<FoundSet> {
  const set = view.matchesOf(keyOf(filter));
  // Others have been remembered in its place.
  if (set === undefined) throw new NeedsOwner("the matches of the filter are forgotten");
  return { set, recordsRead: undefined, absent: [] };
}

// biome-ignore lint/correctness/useYield: what is known takes no steps.
function* noWarnings(view: AttachedView, filter: Filter): Steps<never[]> {
  if (view.isWarnedOf(keyOf(filter))) throw new NeedsOwner("the owner knows what is wrong with the filter");
  return [];
}

const elsewhere = (): never => {
  throw new NeedsOwner("a filter is looked up by the owner");
};

/** @throws NeedsOwner where there are too many, or too long ones */
function keyed(filters: readonly Filter[]): ReadonlyMap<string, Filter> {
  const byKey = new Map(filters.map((filter) => [keyOf(filter), filter]));
  if (byKey.size > filtersMax || [...byKey.keys()].some((key) => key.length > keyLengthMax))
    throw new NeedsOwner("there are too many filters to be remembered, or too long ones");
  return byKey;
}

function isKnown(view: AttachedView, { filters }: Asked): boolean {
  for (const key of filters.keys()) if (view.matchesOf(key) === undefined) return false;
  return true;
}

export const callerOf = ({ account, workMs, idempotencyKey }: Deadline): Caller => ({
  account,
  workMs,
  ...(idempotencyKey !== undefined && { idempotencyKey }),
});
