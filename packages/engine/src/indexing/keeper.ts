// When is an index kept on disk, and when is what was kept of use?
//
// Kept is the index as of a version: its closures up to that version, and its records up to an ordinal. After a start the feed
// goes on from there. It is of use only when the file is whole, is of this index's configuration, and when the collection's
// log has that very version (or has forgotten it: then it must at least be one that the collection has passed).
// Everything else means that there is none: the index is built from the records (invariant 5).

import { existsSync } from "node:fs";
import { toHex } from "../base/bytes.ts";
import { readHead } from "../collection/head.ts";
import { readVersion } from "../collection/versions.ts";
import type { Index } from "../index/contract.ts";
import { HnswIndex, type HnswOptions } from "../index/hnsw/hnsw-index.ts";
import type { Builders } from "../runtime/builders.ts";
import { removeCheckpoint } from "../runtime/checkpoint-file.ts";
import type { Snapshot } from "../storage/store.ts";

export interface Keeper<Held extends Index> {
  /** Whether there is anything to restore. */
  readonly isThere: boolean;
  restore(reader: () => Snapshot): Promise<{ index: Held; version: number; cursor: number } | null>;
  /** @param version up to which closures are in the index, asked when it is written */
  keep(
    index: Held,
    version: () => number,
    reader: () => Snapshot,
    isLast: boolean,
  ): Promise<void> | undefined;
  forget(): Promise<void>;
}

/** Changes that are worth a checkpoint of an idle index: these, and this share of its records. */
const changesMin = 1_000;
const changesShare = 0.2;
/** Changes after which a busy index is kept too. */
const changesBusy = 100_000;

export class HnswKeeper implements Keeper<HnswIndex> {
  readonly #path: string;
  readonly #configuration: string;
  readonly #options: HnswOptions;
  readonly #builders: Builders;
  readonly #onProblem: (problem: unknown) => void;
  #saving: Promise<void> | undefined;
  #isForgotten = false;

  constructor(
    path: string,
    configuration: string,
    options: HnswOptions,
    builders: Builders,
    onProblem: (problem: unknown) => void,
  ) {
    this.#path = path;
    this.#configuration = configuration;
    this.#options = options;
    this.#builders = builders;
    this.#onProblem = onProblem;
  }

  get isThere(): boolean {
    return existsSync(this.#path);
  }

  async restore(
    reader: () => Snapshot,
  ): Promise<{ index: HnswIndex; version: number; cursor: number } | null> {
    try {
      const { meta, state } = await this.#builders.open(this.#path);
      if (meta.configuration !== this.#configuration) return null;
      const snapshot = reader();
      try {
        const head = readHead(snapshot);
        if (meta.version > head.version || state.linkedEnd > head.nextOrdinal) return null;
        const entry = readVersion(snapshot, meta.version);
        if (entry !== undefined && toHex(entry.hash) !== meta.hash) return null;
      } finally {
        snapshot.release();
      }
      const index = await HnswIndex.restored(this.#options, state, (graphs) =>
        this.#builders.load(this.#path, graphs),
      );
      return { index, version: meta.version, cursor: state.linkedEnd };
    } catch (error) {
      this.#onProblem(error);
      return null;
    }
  }

  keep(
    index: HnswIndex,
    version: () => number,
    reader: () => Snapshot,
    isLast: boolean,
  ): Promise<void> | undefined {
    if (this.#saving !== undefined) return this.#saving;
    if (this.#isForgotten || index.failure !== undefined || index.encoding === undefined) return undefined;
    const { changes, hasNewEffort } = index;
    if (changes < changesMin && !hasNewEffort) return undefined;
    const isWorthIt = isLast || hasNewEffort || changes >= changesShare * index.count;
    if (!isWorthIt || (!isLast && !index.isIdle && changes < changesBusy)) return undefined;
    this.#saving = this.#save(index, version, reader)
      .catch((error: unknown) => this.#onProblem(error))
      .finally(() => {
        this.#saving = undefined;
      });
    return this.#saving;
  }

  #save(index: HnswIndex, version: () => number, reader: () => Snapshot): Promise<void> {
    return new Promise((resolve, reject) => {
      index.save((state, graphs, done) => {
        const ended = (isKept: boolean, act: () => void) => {
          done(isKept);
          act();
        };
        try {
          const at = version();
          const hash = hashOf(reader(), at);
          if (this.#isForgotten || hash === undefined) {
            ended(false, resolve);
            return;
          }
          this.#builders
            .save(this.#path, { configuration: this.#configuration, version: at, hash }, state, graphs)
            .then(
              () => ended(true, resolve),
              (error: unknown) => ended(false, () => reject(error)),
            );
        } catch (error) {
          ended(false, () => reject(error));
        }
      }, resolve);
    });
  }

  async forget(): Promise<void> {
    this.#isForgotten = true;
    await this.#saving;
    removeCheckpoint(this.#path);
  }
}

/** The hash of a version; undefined when the log has forgotten it. */
function hashOf(snapshot: Snapshot, version: number): string | undefined {
  try {
    const entry = readVersion(snapshot, version);
    return entry && toHex(entry.hash);
  } finally {
    snapshot.release();
  }
}
