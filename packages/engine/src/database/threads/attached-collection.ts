// How does a serving thread search a collection of another thread?
//
// It keeps the latest view that the owner has posted. The view serves a search if it has every version that was acknowledged when the search
// began, which one load from shared memory tells, and if nothing that it reads was freed, which pinning its epoch tells. Otherwise the
// thread asks the owner for a newer one; searches that need the same ask once.

import { isQuiverError } from "@quiverdb/protocol/errors";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { Deadline } from "../../base/deadline.ts";
import { EpochReader, tableNumber } from "../../base/epochs.ts";
import { invariant } from "../../base/invariant.ts";
import type { CollectionDefinition } from "../../collection/definition.ts";
import { RecordIdCache } from "../../collection/record-id-cache.ts";
import { collectionTables } from "../../collection/tables.ts";
import { keyOf } from "../../filter/filter.ts";
import { OrdinalBitmap } from "../../index/ordinal-bitmap.ts";
import type { Searched } from "../../query/answer.ts";
import type { FilterLookUp } from "../../query/filter/look-up.ts";
import type { Beam } from "../../query/plan.ts";
import { LmdbStore } from "../../storage/lmdb.ts";
import { AttachedView, NeedsOwner } from "./attached-view.ts";
import type { Attachable, Caller, PostedView, ViewAnswer, ViewCall } from "./messages.ts";
import { SharedState } from "./shared-state.ts";

/** Filters with longer keys are the owner's. */
const keyLengthMax = 4_096;

/** A view that is asked for. @property key of the filter; empty: none */
type Asked = { readonly needed: readonly IndexKind[]; readonly key: string; readonly filter: unknown };

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
  readonly #asked = new Map<string, Promise<AttachedView>>();
  #searches = 0;
  #onIdle: (() => void) | undefined;
  #isClosing = false;

  constructor(attachable: Attachable, asking: Asking) {
    this.name = attachable.definition.name;
    this.internalId = attachable.internalId;
    this.definition = attachable.definition;
    this.#asking = asking;
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
    this.#state.countSearch();
    this.#searches++;
    try {
      return await run();
    } finally {
      if (--this.#searches === 0) this.#onIdle?.();
    }
  }

  acquireView(needed: readonly IndexKind[], deadline: Deadline): AttachedView | Promise<AttachedView> {
    return this.acquire({ needed, key: "", filter: undefined }, deadline);
  }

  /** A view that knows the matches of the filter, where there is one; pinned. */
  acquire(asked: Asked, deadline: Deadline): AttachedView | Promise<AttachedView> {
    const wanted = this.#state.seenVersion;
    const view = this.#view;
    const isKnown = asked.filter === undefined || view?.matchesOf(asked.key) !== undefined;
    if (isKnown && view?.serves(wanted, asked.needed) && view.tryPin()) return view;
    return this.#acquire(asked, wanted, deadline);
  }

  async #acquire(of: Asked, wanted: number, deadline: Deadline): Promise<AttachedView> {
    const what = `${of.needed.join(" ")} ${of.key}`;
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

  async #attach({ needed: kinds, key, filter }: Asked, deadline: Deadline): Promise<AttachedView> {
    const { name, internalId } = this;
    const call: ViewCall = { name, internalId, kinds, filter, caller: callerOf(deadline) };
    const answer = await this.#asking.view(call, deadline);
    if (answer === undefined || this.#isClosing) throw new NeedsOwner("the collection was replaced");
    const { lease, posted, matching, isWarned } = answer;
    try {
      const isSearchable = kinds.every((kind) => posted.view.indexes[kind] !== undefined);
      if (!isSearchable) throw new NeedsOwner("an index cannot be searched in other threads");
      const view = this.#keep(posted);
      if (matching !== undefined) view.remember(key, { set: OrdinalBitmap.attach(matching), isWarned });
      return view;
    } finally {
      // Whoever asked pins the view in the microtasks before the owner can free anything.
      setImmediate(() => this.#asking.release(lease));
    }
  }

  #keep(posted: PostedView): AttachedView {
    const { epochs } = posted.view;
    const table = tableNumber(epochs);
    if (this.#pins?.table !== table)
      this.#pins = { table, reader: new EpochReader(epochs, this.#asking.slot) };
    const view = new AttachedView(posted, this.#asking.slot, this.#pins.reader, this.#store, this.#recordIds);
    if (this.#view !== undefined) view.rememberFrom(this.#view);
    this.#view = view;
    return view;
  }

  beamWidth({ exact, efSearch, recallTarget }: Beam, _k: number, view: AttachedView): number | undefined {
    if (exact || efSearch !== null) return efSearch ?? undefined;
    const target = recallTarget ?? view.definitions.dense?.index.properties.recall_target ?? null;
    if (target !== null) throw new NeedsOwner("the owner knows which beam reaches a recall");
    return undefined;
  }

  /** The collection for a search with one filter, as it came with the request. */
  filteredBy(filter: unknown): Searched<AttachedView> {
    let key = "";
    return {
      definition: this.definition,
      // The owner, who finds the records, knows which fields are times.
      isTime: () => () => false,
      acquireView: (needed, deadline, [read]) => {
        key = read ? keyOf(read) : "";
        if (key.length > keyLengthMax) throw new NeedsOwner("a filter is too long to be remembered");
        return this.acquire({ needed, key, filter }, deadline);
      },
      beamWidth: (beam, k, view) => this.beamWidth(beam, k, view),
      lookUpIn: (view) => ({
        // biome-ignore lint/correctness/useYield: what is known takes no steps.
        *matching() {
          const set = view.matchesOf(key);
          // Others have been remembered in its place.
          if (set === undefined) throw new NeedsOwner("the matches of the filter are forgotten");
          return { set, recordsRead: undefined, absent: [] };
        },
        // biome-ignore lint/correctness/useYield: what is known takes no steps.
        *warnings() {
          if (view.isWarnedOf(key)) throw new NeedsOwner("the owner knows what is wrong with the filter");
          return [];
        },
        visible: elsewhere,
        fields: elsewhere,
      }),
    };
  }

  /** Of a batch with filters, or for a key with a filter. */
  lookUpIn(): FilterLookUp {
    return ofTheOwner;
  }

  isTime(): never {
    throw new NeedsOwner("the owner finds the matches of filters");
  }

  /** Closes the store when no search goes on. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#view = undefined;
    if (this.#searches > 0)
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    await this.#store.close();
  }
}

const unlessLagging = (error: unknown): undefined => {
  if (isQuiverError(error, "not_ready")) throw error;
};

const elsewhere = (): never => {
  throw new NeedsOwner("a filter is looked up by the owner");
};
const ofTheOwner: FilterLookUp = {
  matching: elsewhere,
  visible: elsewhere,
  warnings: elsewhere,
  fields: elsewhere,
};

export const callerOf = ({ account, workMs }: Deadline): Caller => ({ account, workMs });
