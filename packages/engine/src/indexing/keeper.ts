// When is an index kept on disk, and when is what was kept of use?
//
// CheckpointData is the index as of a version: its closures up to that version, and its records up to an ordinal. After a start the
// feed goes on from there. It is of use only when the file is whole, is of this index's configuration, and when the collection's
// log has that very version (or has forgotten it: then it must at least be one that the collection has passed).
// Everything else means that there is none: the index is built from the records (invariant 5).
//
// How an index is handed out and taken back is for its kind to say (index/checkpoint-adapter.ts).

import { existsSync } from "node:fs";
import { toHex } from "../base/bytes.ts";
import { readHead } from "../collection/head.ts";
import { readVersion } from "../collection/versions.ts";
import type { CheckpointAdapter } from "../index/checkpoint-adapter.ts";
import type { Index } from "../index/contract.ts";
import type { CheckpointMeta } from "../runtime/builder-messages.ts";
import type { Builders } from "../runtime/builders.ts";
import { CheckpointReader, removeCheckpoint } from "../runtime/checkpoint-file.ts";
import type { Snapshot } from "../storage/store.ts";

/**
 * Changes that are worth a checkpoint of an idle index: these, and this share of its records. Of an index of so many bytes the share
 * is enough: a dozen texts of 4 MiB took a minute to be analysed again.
 */
const changesMin = 1_000;
const changesShare = 0.2;
const largeBytes = 16 * 2 ** 20;
/** Changes after which a busy index is kept too. */
const changesBusy = 100_000;

/** What a kept index takes when it is restored, how many records it has, and as of which version. */
export type KeptSize = { readonly bytes: number; readonly records: number; readonly version: number };

/** The size of an index of this configuration as it was kept; undefined where nothing of use is known. */
export function keptSize(path: string, configuration: string): KeptSize | undefined {
  if (!existsSync(path)) return undefined;
  let file: CheckpointReader;
  try {
    file = new CheckpointReader(path);
  } catch {
    // A checkpoint that does not verify is none (invariant 5); restoring it tells.
    return undefined;
  }
  file.close();
  const meta = file.meta as CheckpointMeta;
  if (meta.configuration !== configuration) return undefined;
  if (meta.restoredBytes === undefined || meta.records === undefined) return undefined;
  return { bytes: meta.restoredBytes, records: meta.records, version: meta.version };
}

export class Keeper {
  readonly #path: string;
  readonly #configuration: string;
  readonly #form: CheckpointAdapter<Index, unknown>;
  readonly #builders: Builders;
  readonly #onProblem: (problem: unknown) => void;
  #saving: Promise<void> | undefined;
  #isForgotten = false;

  /** @param configuration everything that decides what the index is made of, or its hash */
  constructor(
    path: string,
    configuration: string,
    form: CheckpointAdapter<Index, unknown>,
    builders: Builders,
    onProblem: (problem: unknown) => void,
  ) {
    this.#path = path;
    this.#configuration = configuration;
    this.#form = form;
    this.#builders = builders;
    this.#onProblem = onProblem;
  }

  /** Whether there is anything to restore. */
  get isThere(): boolean {
    return existsSync(this.#path);
  }

  /** The kept index, the version up to which it has closures, and where its records end; null: it is of no use. */
  async restore(reader: () => Snapshot): Promise<{ index: Index; version: number; cursor: number } | null> {
    try {
      const { meta, state } = (await this.#builders.open(this.#path)) as {
        meta: CheckpointMeta;
        state: unknown;
      };
      if (meta.configuration !== this.#configuration) return null;
      const cursor = this.#form.endOf(state);
      if (!isOf(reader(), meta, cursor)) return null;
      const index = await this.#form.restored(state, (images) => this.#builders.load(this.#path, images));
      return { index, version: meta.version, cursor };
    } catch (error) {
      this.#onProblem(error);
      return null;
    }
  }

  /**
   * Keeps the index where that is worth it and it is not being done; resolves when it is done.
   * @param version up to which closures are in the index, asked when it is written
   */
  keep(
    index: Index,
    version: () => number,
    reader: () => Snapshot,
    isLast: boolean,
  ): Promise<void> | undefined {
    // What is being written may lack what came since; who is the last waits, and looks again.
    if (this.#saving !== undefined && isLast)
      return this.settled().then(() => this.keep(index, version, reader, isLast));
    if (this.#saving !== undefined || this.#isForgotten) return undefined;
    const changes = this.#form.changes(index, isLast);
    if (changes === undefined) return undefined;
    const hasNews = this.#form.hasNews(index);
    const isShare = changes > 0 && changes >= changesShare * index.count;
    const isMuch = changes >= changesMin || (isShare && index.memoryBytes >= largeBytes);
    if (!isMuch && !hasNews) return undefined;
    const isWorthIt = isLast || hasNews || isShare;
    if (!isWorthIt || (!isLast && !this.#form.isIdle(index) && changes < changesBusy)) return undefined;
    this.#saving = this.#form
      .save(index, (state, images) => this.#write(index, version(), reader, state, images), isLast)
      .finally(() => {
        this.#saving = undefined;
      });
    return this.#saving;
  }

  async #write(
    index: Index,
    version: number,
    reader: () => Snapshot,
    state: unknown,
    images: readonly Uint8Array[],
  ): Promise<boolean> {
    const hash = hashOf(reader(), version);
    if (this.#isForgotten || hash === undefined) return false;
    const { restoredBytes, count: records } = index;
    const meta = { configuration: this.#configuration, version, hash, restoredBytes, records };
    await this.#builders.save(this.#path, meta, state, images);
    return true;
  }

  /** Resolves when nothing is being written; how that ended is told to who began it. */
  async settled(): Promise<void> {
    try {
      await this.#saving;
    } catch {
      // See above.
    }
  }

  /** Removes what was kept; nothing is kept any more. */
  async forget(): Promise<void> {
    this.#isForgotten = true;
    await this.settled();
    removeCheckpoint(this.#path);
  }
}

/** Whether a checkpoint is of the collection that a snapshot is of, and not of its future. */
function isOf(snapshot: Snapshot, meta: CheckpointMeta, cursor: number): boolean {
  try {
    const head = readHead(snapshot);
    if (meta.version > head.version || cursor > head.nextOrdinal) return false;
    const entry = readVersion(snapshot, meta.version);
    return entry === undefined || toHex(entry.hash) === meta.hash;
  } finally {
    snapshot.release();
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
