// How are indexes created and deleted, and what is their status?

import { QuiverError } from "@quiverdb/protocol/errors";
import { checkFields } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import {
  AnalyzeText,
  type IndexDefinition,
  type Indexes,
  type IndexKind,
  type IndexStatus,
  isMetadataIndex,
  type MetadataDefinition,
  MetadataIndex,
  type MetadataIndexes,
  metadataPrefix,
  type TextAnalysis,
} from "@quiverdb/protocol/shapes/index-definition";
import { compareText } from "../../base/bytes.ts";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import { failpoint } from "../../base/failpoint.ts";
import type { LoggedRequest } from "../../collection/accept.ts";
import { type IndexDefinitions, readIndexDefinitions } from "../../collection/apply.ts";
import type { Head } from "../../collection/head.ts";
import type { NewIndex } from "../../index/kind.ts";
import { kindNamed, kindWith } from "../../index/registry.ts";
import { building } from "../../indexing/index-updaters.ts";
import { indexing } from "../../indexing/indexer.ts";
import { collectGarbage } from "../../process/collect-garbage.ts";
import { requireIndexes } from "../../query/legs.ts";
import { failingTasks } from "../failing-tasks.ts";
import { makeUpdater } from "../updaters.ts";
import type { LoadState } from "./load-state.ts";
import type { CollectionMemory } from "./memory.ts";
import type { CollectionState } from "./state.ts";
import { updaterDependencies } from "./updater-dependencies.ts";
import type { Writes } from "./writes.ts";

export class IndexAdministration {
  readonly #state: CollectionState;
  readonly #memory: CollectionMemory;
  readonly #load: LoadState;
  readonly #writes: Writes;
  readonly #onCreated: (kind: IndexKind) => void;

  /** @param onCreated called for each new index */
  constructor(
    state: CollectionState,
    memory: CollectionMemory,
    load: LoadState,
    writes: Writes,
    onCreated: (kind: IndexKind) => void,
  ) {
    this.#state = state;
    this.#memory = memory;
    this.#load = load;
    this.#writes = writes;
    this.#onCreated = onCreated;
  }

  createIndex(index: IndexKind, given: NewIndex, options?: CallOptions): Promise<void> {
    return this.#state.gate.pass(async () => {
      const definition = kindNamed(index).define(this.#state.definition, given);
      await this.#load.inTurn(async () => {
        const definitions = { [index]: definition } as IndexDefinitions;
        const admitted = await this.#admitIndex(index, definitions);
        try {
          const isNew = await this.#changeDefinitions({ kind: "createIndex", index, definition }, options);
          failpoint("index:defined");
          if (isNew) this.#begin(index, definitions);
        } finally {
          admitted();
        }
      });
    });
  }

  /** Begins to build an index that is defined. */
  #begin(index: IndexKind, definitions: IndexDefinitions): void {
    const { indexer } = this.#state;
    if (indexer)
      indexer.add(
        makeUpdater(
          this.#state.definition,
          index,
          definitions,
          updaterDependencies(this.#state, this.#memory, () => indexer),
        ),
      );
    this.#memory.forgetSizes();
    this.#state.dependencies.memory.changed();
    this.#onCreated(index);
  }

  /** Drops an index that is no longer defined. @returns when nothing uses it any more */
  #end(index: IndexKind): Promise<void> | undefined {
    const removed = this.#state.indexer?.drop(index);
    this.#memory.forgetSizes();
    this.#state.dependencies.memory.changed();
    return removed;
  }

  /** Builds what another node has defined, and drops what it has deleted. */
  follow(index: IndexKind): Promise<void> {
    this.#state.definitions = undefined;
    return this.#load.inTurn(async () => {
      const definitions = this.#state.read((readTxn) => readIndexDefinitions(readTxn));
      if (this.#state.indexer?.updater(index) !== undefined) await this.#end(index);
      if (definitions[index] !== undefined) this.#begin(index, definitions);
    });
  }

  /** @returns whether it was not done before, by a request with the same key */
  async #changeDefinitions(
    change: Extract<LoggedRequest, { index: IndexKind }>,
    options: CallOptions | undefined,
  ): Promise<boolean> {
    const isDefined = () =>
      this.#state.read((readTxn) => readIndexDefinitions(readTxn)[change.index] !== undefined);
    const before = isDefined();
    try {
      await this.#writes.write(change, Deadline.of(options));
    } finally {
      // A write that fails may have been applied.
      this.#state.definitions = undefined;
    }
    return isDefined() !== before;
  }

  async #admitIndex(index: IndexKind, definitions: IndexDefinitions): Promise<() => void> {
    if (!this.#memory.isLimited) return () => {};
    const { bytes } = this.#state.read((readTxn, head) =>
      this.#memory.sizeOf(index, definitions, readTxn, head),
    );
    if (!this.#state.isLoaded) {
      this.#memory.refuseUnloadable(`A ${index} index of the collection '${this.#state.name}'`, bytes);
      return () => {};
    }
    return this.#memory.admit(`A ${index} index of the collection '${this.#state.name}'`, bytes);
  }

  /** Declares a field; a field that is declared with the same type stays as it is. */
  async createMetadataIndex(field: string, request: MetadataIndex, options?: CallOptions): Promise<void> {
    checkFields(MetadataIndex, request);
    const kind = kindNamed(`${metadataPrefix}${field}`);
    const { type } = kind.define(this.#state.definition, { field, ...request }) as MetadataDefinition;
    const definitions = this.#metadataDefinitions();
    const before = definitions.find((definition) => `${metadataPrefix}${definition.field}` === kind.name);
    if (before?.type === type) return;
    if (before !== undefined)
      throw new QuiverError(
        "index_already_exists",
        `The metadata index of the field '${field}' already exists, with the type ${before.type}. DELETE .../metadata-indexes/${encodeURIComponent(field)} removes it first.`,
        { field, type: before.type },
      );
    if (definitions.length >= limits.metadataIndexesMax)
      throw new QuiverError(
        "invalid_request",
        `The collection has ${definitions.length} metadata indexes, the most that are possible. Delete one first.`,
        { path: "field", maximum: limits.metadataIndexesMax },
      );
    await this.createIndex(kind.name, { field, type }, options);
  }

  #metadataDefinitions(): MetadataDefinition[] {
    const definitions = this.#state.read((readTxn) => readIndexDefinitions(readTxn));
    return Object.entries(definitions).flatMap(([name, definition]) =>
      isMetadataIndex(name) ? [definition as MetadataDefinition] : [],
    );
  }

  /** @throws index_not_found */
  async deleteMetadataIndex(field: string, options?: CallOptions): Promise<void> {
    const { name } = kindNamed(`${metadataPrefix}${field}`);
    await this.deleteIndex(name, options);
  }

  metadataIndexes(): MetadataIndexes {
    const { definitions, head } = this.#definitionsAndHead();
    const indexes = Object.entries(definitions).flatMap(([name, definition]) =>
      isMetadataIndex(name)
        ? [{ ...(definition as MetadataDefinition), status: this.#indexStatus(name, head) }]
        : [],
    );
    return { indexes: indexes.sort((a, b) => compareText(a.field, b.field)) };
  }

  #definitionsAndHead(): { definitions: IndexDefinitions; head: Head } {
    return this.#state.read((readTxn, head) => ({ definitions: readIndexDefinitions(readTxn), head }));
  }

  deleteIndex(index: IndexKind, options?: CallOptions): Promise<void> {
    return this.#state.gate.pass(() => {
      const deleted = Promise.withResolvers<void>();
      const turn = this.#load.inTurn(async () => {
        const isNew = await this.#changeDefinitions({ kind: "deleteIndex", index }, options);
        failpoint("index:undefined");
        const removed = isNew ? this.#end(index) : undefined;
        failpoint("index:dropped");
        this.#state.background.once("collecting garbage", collectGarbage);
        deleted.resolve();
        // Only the next operation waits: it may need the place of the checkpoint, which a thread may still be writing or reading.
        await removed;
      });
      return Promise.race([deleted.promise, turn]);
    });
  }

  indexes(): Indexes {
    const { definitions, head } = this.#definitionsAndHead();
    const withStatus = Object.entries(definitions).flatMap(([kind, definition]) =>
      isMetadataIndex(kind)
        ? []
        : [[kind, { ...definition, status: this.#indexStatus(kind as IndexKind, head) }]],
    );
    return Object.fromEntries(withStatus) as Indexes;
  }

  #indexStatus(kind: IndexKind, head: Head): IndexStatus {
    const total = kindNamed(kind).countOf(head);
    const { indexer } = this.#state;
    const updater = indexer?.updater(kind);
    const isServing = updater?.isBuilt === true && updater.wasFinal && updater.index.isSettled !== false;
    // Searches of all threads are as fast as the answer says.
    if (isServing) indexer?.refreshViews();
    const isReady = updater?.watermark === head.version && updater.finalEnd >= head.nextOrdinal;
    const status = updater?.status ?? kindNamed(kind).status(undefined);
    const linked = (updater?.index.count ?? 0) - (status.records_in_tail ?? 0);
    const indexed = isReady ? total : Math.max(0, Math.min(total, linked));
    return {
      state: updater === undefined ? "unloaded" : isServing ? "ready" : "building",
      served_by: status.served_by,
      records_indexed: indexed,
      records_total: total,
      ...(this.#failureOf(kind) !== undefined && { failure: this.#failureOf(kind) }),
      percentage_complete:
        updater === undefined
          ? 0
          : isReady
            ? 100
            : Math.floor(updater.progress(0, head.nextOrdinal) * 1000) / 10,
      watermark: Math.max(0, updater?.watermark ?? 0),
      complete_version: Math.max(0, indexer?.completed ?? 0),
      memory_bytes: Math.round(updater?.index.memoryBytes ?? 0),
      ...(updater && status),
    };
  }

  /** Why indexing is stalled: building this index fails, or reading the store fails. */
  #failureOf(kind: IndexKind): string | undefined {
    return failingTasks(this.#state.background).find(
      ({ task }) => task === indexing || task === building(kind),
    )?.message;
  }

  async analyzeText(request: AnalyzeText, options?: CallOptions): Promise<TextAnalysis> {
    checkFields(AnalyzeText, request);
    const { task } = Deadline.of(options);
    const { name, analyze } = kindWith("analyze");
    const definition = () => {
      const definitions = this.#state.read((readTxn) => readIndexDefinitions(readTxn));
      requireIndexes(definitions, [name], this.#state.name);
      return definitions[name] as IndexDefinition;
    };
    return task.finish(analyze(request.text, definition));
  }
}
