// When are the indexes of a collection in memory?
//
// Loading, unloading, and creating and deleting indexes run one at a time. The load state is durable: the next start restores it.

import { QuiverError } from "@quiverdb/protocol/errors";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import { failpoint } from "../../base/failpoint.ts";
import { readIndexDefinitions } from "../../collection/apply.ts";
import { Indexer } from "../../indexing/indexer.ts";
import { collectGarbage, collectGarbageIfGrown } from "../../process/collect-garbage.ts";
import { makeUpdater } from "../updaters.ts";
import type { CollectionMemory } from "./memory.ts";
import type { CollectionState } from "./state.ts";
import { updaterDependencies } from "./updater-dependencies.ts";

export type LoadEvents = {
  /** The indexes are about to be loaded. */
  onLoading(): void;
  /** The indexes are complete up to a version. */
  onIndexed(version: number): void;
  onUnloaded(): void;
};

export class LoadState {
  readonly #state: CollectionState;
  readonly #memory: CollectionMemory;
  readonly #events: LoadEvents;
  /** The last operation that was started. */
  #last: Promise<unknown> = Promise.resolve();
  #lastUsedMs: number;
  /** Searches of other threads that were counted then. */
  #searchesElsewhere = 0;

  constructor(state: CollectionState, memory: CollectionMemory, events: LoadEvents) {
    this.#state = state;
    this.#memory = memory;
    this.#events = events;
    this.#lastUsedMs = state.dependencies.clock();
  }

  /** The time of the last search; of those in other threads, when it was last looked at. */
  get lastUsedMs(): number {
    const { searchesElsewhere } = this.#state.shared;
    if (searchesElsewhere !== this.#searchesElsewhere) this.used();
    this.#searchesElsewhere = searchesElsewhere;
    return this.#lastUsedMs;
  }

  /** Resolves when no operation is running. */
  async settled(): Promise<void> {
    await this.#last;
  }

  load(options?: CallOptions): Promise<void> {
    return this.#state.gate.pass(async () => {
      const deadline = Deadline.of(options);
      await deadline.race(this.ensureLoaded(true));
      await deadline.race(this.#state.indexed());
    });
  }

  unload(): Promise<void> {
    return this.#state.gate.pass(() =>
      this.inTurn(async () => {
        if (!this.#state.indexer) return;
        failpoint("unload:begin");
        await this.#saveLoaded(false);
        failpoint("unload:noted");
        await this.checkpointIndexes();
        failpoint("unload:kept");
        const { indexer } = this.#state;
        indexer?.stop(
          new QuiverError("shutting_down", "The collection was unloaded meanwhile; search again."),
        );
        this.#state.indexer = null;
        await indexer?.written();
        this.#memory.forgetSizes();
        this.#state.dependencies.memory.changed();
        failpoint("unload:stopped");
        this.#events.onUnloaded();
        this.#state.background.once("collecting garbage", collectGarbage);
      }),
    );
  }

  /** The indexes serve a search. */
  used(): void {
    this.#lastUsedMs = this.#state.dependencies.clock();
  }

  /** @param mustLast whether to fail when the state cannot be made durable, as on a full disk */
  async ensureLoaded(mustLast = false): Promise<Indexer> {
    this.used();
    if (this.#state.indexer) return this.#state.indexer;
    return this.inTurn(async () => {
      if (!this.#state.indexer) {
        const admitted = this.#memory.isLimited
          ? await this.#memory.admit(`Loading the collection '${this.#state.name}'`, this.#memory.bytesToLoad)
          : () => {};
        try {
          await this.#noteLoaded(mustLast);
          failpoint("load:noted");
          this.#state.gate.assertOpen();
          this.startIndexes();
        } finally {
          admitted();
        }
      }
      return this.#state.indexer as Indexer | null as Indexer;
    });
  }

  async #noteLoaded(mustLast: boolean): Promise<void> {
    try {
      await this.#saveLoaded(true);
    } catch (error) {
      if (mustLast) throw error;
      this.#state.dependencies.log.warn(
        { err: error },
        "a collection that a search has loaded is not noted as loaded",
      );
    }
  }

  inTurn<T>(act: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(act);
    // The caller of this operation gets its error; the next operation runs in any case.
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  async #saveLoaded(loaded: boolean): Promise<void> {
    await this.#state.dependencies.saveEntry({ ...this.#state.entry, loaded });
    this.#state.entry.loaded = loaded;
  }

  startIndexes(): void {
    const events = {
      onComplete: (version: number) => {
        this.#events.onIndexed(version);
        this.#state.dependencies.onMemoryUse();
        this.#state.background.once("collecting garbage", collectGarbageIfGrown);
      },
      mayTake: (bytes: number) => this.#memory.mayTake(bytes),
    };
    const { dependencies, name, store, background } = this.#state;
    const { readerSlots } = dependencies;
    const indexer = new Indexer(store, events, background, { name, readerSlots });
    this.#state.indexer = indexer;
    this.#events.onLoading();
    this.#memory.forgetSizes();
    const definitions = this.#state.read((readTxn) => readIndexDefinitions(readTxn));
    for (const kind of Object.keys(definitions) as IndexKind[])
      indexer.add(
        makeUpdater(
          this.#state.definition,
          kind,
          definitions,
          updaterDependencies(this.#state, this.#memory, () => indexer),
        ),
      );
    indexer.wake();
    this.#state.dependencies.memory.changed();
  }

  /** Writes the last checkpoints. An index without one is built again from the records. */
  async checkpointIndexes(): Promise<void> {
    for (const err of (await this.#state.indexer?.checkpointLast()) ?? [])
      this.#state.dependencies.log.warn(
        { ...this.#state.logged, err },
        "the checkpoint of an index could not be written",
      );
  }
}
