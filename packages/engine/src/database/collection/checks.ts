// How is a collection verified while it is served?

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { CheckReport, Finding, NotCompared } from "@quiverdb/protocol/shapes/check";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { toHex } from "../../base/bytes.ts";
import { Task } from "../../base/scheduler.ts";
import { type IndexDefinitions, readIndexDefinitions } from "../../collection/apply.ts";
import { ask } from "../../index/builders.ts";
import type { WriteCheckpoint } from "../../index/checkpoint-adapter.ts";
import { kindNamed } from "../../index/registry.ts";
import type { IndexUpdater } from "../../indexing/index-updater.ts";
import { checkpointWriting } from "../../runtime/storage-tasks.ts";
import type { View } from "../../views/view.ts";
import { comparePostings } from "../check/index-comparison.ts";
import { type IndexImage, RunningCheck } from "../check/live.ts";
import { checkpointOf, checkpointPath } from "../updaters.ts";
import type { CollectionState } from "./state.ts";
import { updaterDependencies } from "./updater-dependencies.ts";

const notLoaded = "the collection is not loaded";
const nothingToCompare =
  "it has nothing but the records yet: a dense index with few vectors scans them, and builds no graph";

export class Checks {
  readonly #state: CollectionState;
  readonly #checks = new Set<RunningCheck>();

  constructor(state: CollectionState) {
    this.#state = state;
  }

  stop(reason: Error): void {
    for (const check of this.#checks) check.stop(reason);
  }

  check(): Promise<CheckReport> {
    return this.#state.dependencies.checkAlone(() => this.#check());
  }

  #check(): Promise<CheckReport> {
    return this.#state.gate.pass(async () => {
      // Before the read transaction, so that the images are at most as new as the records that they are compared with.
      const images = await this.#imagesOfIndexes();
      const readTxn = this.#state.store.beginRead();
      const { directory } = this.#state.dependencies;
      const running = new RunningCheck({
        kind: "collection",
        directory,
        definition: this.#state.definition,
        images,
      });
      this.#checks.add(running);
      try {
        const findings: Finding[] = [];
        const find = (finding: Finding) => findings.push({ ...finding, collection: this.#state.name });
        const [report, indexes] = await Promise.all([running.report, this.#compareIndexes(find)]);
        for (const collection of report.collections) {
          collection.indexes.push(...indexes);
          collection.indexes_not_compared = this.#notCompared(collection.indexes);
        }
        return {
          ...report,
          findings: [...report.findings, ...findings].slice(0, limits.findingsMax),
          findings_total: report.findings_total + findings.length,
        };
      } finally {
        this.#checks.delete(running);
        running.stop(new QuiverError("internal", "The check was given up."));
        readTxn.release();
      }
    });
  }

  #notCompared(compared: readonly string[]): NotCompared[] {
    const kinds = this.#state.read((readTxn) => Object.keys(readIndexDefinitions(readTxn)));
    const isLoaded = this.#state.indexer !== null && !this.#state.indexer.isStopped;
    return kinds
      .filter((kind) => !compared.includes(kind))
      .map((index) => ({ index, reason: isLoaded ? nothingToCompare : notLoaded }));
  }

  /** Compares the postings of indexes in memory with the records. @returns the kinds that were compared */
  async #compareIndexes(find: (finding: Finding) => void): Promise<string[]> {
    const { version, kinds } = this.#state.read((readTxn, head) => ({
      version: head.version,
      kinds: (Object.keys(readIndexDefinitions(readTxn)) as IndexKind[]).filter(
        (kind) => kindNamed(kind).postings !== undefined,
      ),
    }));
    const indexer = this.#state.indexer;
    if (indexer === null || kinds.length === 0) return [];
    let view: View | undefined;
    try {
      view = await indexer.acquireView(version, kinds);
      const interest = {
        get isOver() {
          return indexer.isStopped;
        },
        reason: new QuiverError("not_ready", "The collection was unloaded meanwhile."),
        check() {
          if (this.isOver) throw this.reason;
        },
      };
      return await comparePostings(view, kinds, find, new Task({ key: "check" }, interest));
    } catch (error) {
      this.#state.gate.assertOpen();
      // A collection that was unloaded meanwhile has no indexes to compare.
      if (indexer.isStopped) return [];
      throw error;
    } finally {
      view?.unpin();
    }
  }

  /** Writes the indexes that a check verifies in another thread to files. */
  async #imagesOfIndexes(): Promise<IndexImage[]> {
    const indexer = this.#state.indexer;
    if (indexer === null) return [];
    const definitions = this.#state.read((readTxn) => readIndexDefinitions(readTxn));
    const images: IndexImage[] = [];
    for (const kind of Object.keys(definitions) as IndexKind[]) {
      const updater = indexer.updater(kind);
      if (updater === undefined || kindNamed(kind).prove === undefined) continue;
      const image = await this.#imageOf(updater, definitions);
      if (image !== undefined) images.push(image);
    }
    return images;
  }

  async #imageOf(
    { kind, index }: IndexUpdater,
    definitions: IndexDefinitions,
  ): Promise<IndexImage | undefined> {
    const { directory, builders } = this.#state.dependencies;
    const dependencies = updaterDependencies(this.#state, undefined, () => null);
    const { configuration, form } = checkpointOf(this.#state.definition, kind, definitions, dependencies);
    const { version, hash } = this.#state.read((_, head) => head);
    // Checks run one at a time, and the next one overwrites the file of a killed process.
    const path = `${checkpointPath(directory, kind)}.check`;
    let isWritten = false;
    const write: WriteCheckpoint = async (state, images, rowBytes) => {
      const meta = { configuration, version, hash: toHex(hash) };
      await ask(builders, checkpointWriting, { path, meta, state, images, rowBytes });
      isWritten = true;
      return false;
    };
    await form.save(index, write, false);
    return isWritten ? { kind, path } : undefined;
  }
}
