// When is an index checkpointed, and when is a checkpoint valid?
//
// A checkpoint is the index as of a version: its closures up to that version, and its records up to an ordinal. After a start the updater
// continues from there. A checkpoint is used only when its file is intact, when it was made for this configuration of the index, and when
// the log of the collection contains its version (or has already forgotten it: then the collection must have passed that version).
// Otherwise the index is built from the records (invariant 5).
//
// Each kind of index defines how it is written and read (index/checkpoint-adapter.ts).
//
// Invariant: at most one checkpointer at a time uses a place, as a deleted index and one that is created after it have the same. So before
// the next one begins, the last one is settled: it writes nothing, reads nothing, and has removed what it was told to
// (database/collection/load-state.ts, indexes.ts).

import { toHex } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import { readHead } from "../collection/head.ts";
import { readVersion } from "../collection/versions.ts";
import type {
  CheckpointAdapter,
  CheckpointMeta,
  CheckpointPlace,
  WriteCheckpoint,
} from "../index/checkpoint-adapter.ts";
import type { Index } from "../index/contract.ts";
import type { ReadTransaction } from "../storage/store.ts";

/**
 * An idle index gets a checkpoint after this many changes, if they are also this fraction of its records. For a large index the fraction is
 * enough: analysing a dozen texts of 4 MiB again takes a minute.
 */
const changesMin = 1_000;
const changesShare = 0.2;
const largeBytes = 16 * 2 ** 20;
/**
 * A busy index gets a checkpoint after this many changes. If searches wait for records that it does not have yet, they would wait again after
 * a crash: then a fraction of its records is enough when the index is so large, however few they are. As that grows with the index, all
 * checkpoints together write some three times its bytes.
 */
const changesBusy = 100_000;
const busyShare = 1 / 3;
const busyBytes = 64 * 2 ** 20;

/** An index that was read, the version of its closures, and where its records end. */
type RestoredIndex = { readonly index: Index; readonly version: number; readonly cursor: number };

export class Checkpointer {
  readonly #place: CheckpointPlace;
  readonly #configuration: string;
  readonly #form: CheckpointAdapter<Index, unknown>;
  readonly #onProblem: (problem: unknown) => void;
  #saving: Promise<void> | undefined;
  #reading: Promise<unknown> | undefined;
  #isForgotten = false;

  /** @param configuration everything that determines the contents of the index, or its hash */
  constructor(
    place: CheckpointPlace,
    configuration: string,
    form: CheckpointAdapter<Index, unknown>,
    onProblem: (problem: unknown) => void,
  ) {
    this.#place = place;
    this.#configuration = configuration;
    this.#form = form;
    this.#onProblem = onProblem;
  }

  /** Whether there is a checkpoint. */
  get isThere(): boolean {
    return this.#place.isThere;
  }

  /** The index of the checkpoint; null when the checkpoint is not valid. Never rejects. */
  restore(reader: () => ReadTransaction): Promise<RestoredIndex | null> {
    const reading = this.#restore(reader);
    this.#reading = reading;
    return reading;
  }

  async #restore(reader: () => ReadTransaction): Promise<RestoredIndex | null> {
    try {
      const { meta, state } = await this.#place.open();
      if (meta.configuration !== this.#configuration) return null;
      const cursor = this.#form.endOf(state);
      if (!isOf(reader(), meta, cursor)) return null;
      const index = await this.#form.restored(state, (images) => this.#place.load(images));
      return { index, version: meta.version, cursor };
    } catch (error) {
      this.#onProblem(error);
      return null;
    }
  }

  /**
   * Writes a checkpoint if that is worth it and none is being written. Resolves when it is written.
   * @param version of the closures in the index; called when the checkpoint is written
   */
  keep(
    index: Index,
    version: () => number,
    reader: () => ReadTransaction,
    isLast: boolean,
  ): Promise<void> | undefined {
    // The checkpoint that is being written may lack the latest changes: wait for it, and check again.
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
    if (!isWorthIt || (!isLast && !this.#form.isIdle(index) && !isMuchWork(index, changes))) return undefined;
    this.#saving = this.#form
      .save(index, (...contents) => this.#write(index, version(), reader, contents), isLast)
      .finally(() => {
        this.#saving = undefined;
      });
    return this.#saving;
  }

  async #write(
    index: Index,
    version: number,
    reader: () => ReadTransaction,
    contents: Parameters<WriteCheckpoint>,
  ): Promise<boolean> {
    const hash = hashOf(reader(), version);
    if (this.#isForgotten || hash === undefined) return false;
    const { restoredBytes, count: records } = index;
    invariant(version >= 0 && records >= 0, `a checkpoint of version ${version} has ${records} records`);
    const meta: CheckpointMeta = {
      configuration: this.#configuration,
      version,
      hash,
      restoredBytes,
      records,
    };
    await this.#place.save(meta, ...contents);
    return true;
  }

  /** Resolves when no checkpoint is being written or read. The caller that started it gets its error. */
  async settled(): Promise<void> {
    await this.#reading;
    try {
      await this.#saving;
    } catch {
      // Reported to the caller that started it.
    }
  }

  /** Removes the checkpoint. No further one is written. */
  async forget(): Promise<void> {
    this.#isForgotten = true;
    await this.settled();
    this.#place.remove();
  }
}

/** Whether so much has changed that a busy index gets a checkpoint. */
function isMuchWork(index: Index, changes: number): boolean {
  if (changes >= changesBusy) return true;
  // With `linkedEnd`, the index scans what is not in its final place yet.
  return (
    index.linkedEnd === undefined && changes >= busyShare * index.count && index.memoryBytes >= busyBytes
  );
}

/** Whether the version of a checkpoint is in the history of the collection. */
function isOf(readTxn: ReadTransaction, meta: CheckpointMeta, cursor: number): boolean {
  try {
    const head = readHead(readTxn);
    if (meta.version > head.version || cursor > head.nextOrdinal) return false;
    const entry = readVersion(readTxn, meta.version);
    return entry === undefined || toHex(entry.hash) === meta.hash;
  } finally {
    readTxn.release();
  }
}

/** The hash of a version; undefined when the log no longer has it. */
function hashOf(readTxn: ReadTransaction, version: number): string | undefined {
  try {
    const entry = readVersion(readTxn, version);
    return entry && toHex(entry.hash);
  } finally {
    readTxn.release();
  }
}
