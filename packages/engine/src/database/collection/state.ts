// What do all parts of an open collection share?
//
// Its entry in the catalog, its store, the gate that everything passes through, and, while it is loaded, what keeps its indexes up to
// date. Here it is also decided which version a read sees: what was acknowledged or told of once is never unseen again.

import { isQuiverError } from "@quiver/protocol/errors";
import type { IndexKind } from "@quiver/protocol/shapes/index-definition";
import type { Background } from "../../base/background.ts";
import { readIndexDefinitions } from "../../collection/apply.ts";
import type { CatalogEntry } from "../../collection/catalog.ts";
import type { CollectionDefinition } from "../../collection/definition.ts";
import { type Head, readHead } from "../../collection/head.ts";
import { collectionTables } from "../../collection/tables.ts";
import type { Indexer } from "../../indexing/indexer.ts";
import type { Builders } from "../../runtime/builders.ts";
import type { MemoryBudget } from "../../runtime/memory.ts";
import type { Writer } from "../../runtime/writer.ts";
import { LmdbStore } from "../../storage/lmdb.ts";
import type { Snapshot } from "../../storage/store.ts";
import type { DatabaseLog } from "../contract.ts";
import { loggedBackground } from "../failing-tasks.ts";
import { Gate } from "../gate.ts";

/** What a collection needs from its database. */
export type CollectionDependencies = {
  directory: string;
  writer: Writer;
  builders: Builders;
  memoryBudgetBytes: number | undefined;
  memory: MemoryBudget;
  log: DatabaseLog;
  clock(): number;
  /** Makes durable whether the collection is loaded. */
  saveEntry(entry: CatalogEntry): Promise<void>;
  /** Runs a check, or refuses where another one runs. */
  checkAlone<T>(run: () => Promise<T>): Promise<T>;
  /** A collection was loaded or has grown: others may have to leave. */
  onMemoryUse(): void;
  /** One more export begins. @throws overloaded; to be called back when it ends */
  beginExport(): () => void;
};

export class CollectionState {
  readonly entry: CatalogEntry;
  readonly dependencies: CollectionDependencies;
  readonly store: LmdbStore;
  /** Everything that reads the store is inside; closing waits for it. */
  readonly gate = new Gate();
  readonly background: Background;
  /** What keeps the indexes up to date; null while they are not loaded. Set by load-state.ts alone. */
  indexer: Indexer | null = null;
  /** The newest version that was written here. */
  writtenVersion = 0;
  /** The newest version that somebody was told of, as acknowledged or read: what begins now sees it, or a later one. */
  toldVersion = 0;
  isOpen = true;

  /** The writer has the store open already. */
  constructor(entry: CatalogEntry, dependencies: CollectionDependencies) {
    this.entry = entry;
    this.dependencies = dependencies;
    this.store = new LmdbStore(dependencies.directory, collectionTables);
    this.background = loggedBackground(dependencies.log, this.logged);
    this.toldVersion = this.read((_, head) => head.version);
  }

  get name(): string {
    return this.definition.name;
  }

  get definition(): CollectionDefinition {
    return this.entry.definition;
  }

  get isLoaded(): boolean {
    return this.indexer !== null;
  }

  /** What lines of the log have of the collection. */
  get logged(): { collection: string; store: string } {
    return { collection: this.name, store: this.entry.internalId };
  }

  read<T>(read: (snapshot: Snapshot, head: Head) => T): T {
    this.gate.assertOpen();
    const snapshot = this.store.snapshot();
    try {
      return read(snapshot, readHead(snapshot));
    } finally {
      snapshot.release();
    }
  }

  /**
   * Reads what searches see: the version that is served, where that is as new as what was told of. The newest one else, which is
   * told of with it.
   */
  readServed<T>(read: (snapshot: Snapshot, head: Head) => T): T {
    this.gate.assertOpen();
    const { snapshot, release } = this.served();
    try {
      return read(snapshot, readHead(snapshot));
    } finally {
      release();
    }
  }

  /** The same for reads that take several turns. */
  served(): { snapshot: Snapshot; release(): void } {
    const view = this.indexer?.viewAt(this.toldVersion)?.pin();
    if (view) return { snapshot: view.snapshot, release: () => view.unpin() };
    const snapshot = this.newest();
    return { snapshot, release: () => snapshot.release() };
  }

  /** The newest version, which is told of with that. */
  newest(): Snapshot {
    const snapshot = this.store.snapshot();
    try {
      this.told(readHead(snapshot).version);
      return snapshot;
    } catch (error) {
      snapshot.release();
      throw error;
    }
  }

  told(version: number): void {
    this.toldVersion = Math.max(this.toldVersion, version);
  }

  /** Resolves when the indexes have taken over what is there now. */
  async indexed(): Promise<void> {
    for (;;) {
      const { head, kinds } = this.read((snapshot, current) => ({
        head: current,
        kinds: Object.keys(readIndexDefinitions(snapshot)) as IndexKind[],
      }));
      const indexer = this.indexer;
      if (!indexer) return;
      try {
        (await indexer.acquireView(head.version, kinds)).unpin();
        return;
      } catch (error) {
        // Unloaded meanwhile: there is nothing to wait for. One of the indexes deleted meanwhile: the others count.
        if (!indexer.isStopped && !isQuiverError(error, "index_not_found")) throw error;
      }
    }
  }
}
