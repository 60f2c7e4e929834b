// How do all shards of a collection answer at one version?
//
// All shards apply the same log, so each has every version, but not at the same moment, and not every one as a state of its store: several
// versions are written together. So a shard keeps what it served lately, pinned, for a second: the states that others may be asked for, and
// above all those at *boundaries*, which are the same places of the log in every shard (replica.ts ends a store write there).
//
//   asked for version v     kept, or current      it is read
//                           not reached yet       waits, and reads v, unless it comes to a later version at once
//                           passed                fails with its latest boundary, which all shards have, or come to, as a state
//
// While nothing is written, the current version is the same everywhere. While much is written, a boundary is never far. Whoever asks all shards:
// shards/shards.ts.

import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import type { Deadline } from "../../base/deadline.ts";
import { inBackground, type Timer } from "../../base/host.ts";
import { invariant } from "../../base/invariant.ts";
import { type Head, readHead } from "../../collection/head.ts";
import type { Indexer } from "../../indexing/indexer.ts";
import type { ReadTransaction } from "../../storage/store.ts";
import type { View } from "../../views/view.ts";

/** What it needs of a collection. */
type Served = {
  readonly gate: { assertOpen(): void };
  readonly seenVersion: number;
  readonly indexer: Pick<Indexer, "viewAt" | "acquireView"> | null;
  read<T>(read: (readTxn: ReadTransaction, head: Head) => T): T;
  newest(): ReadTransaction;
  nextWrite(ms: number, deadline: Deadline): Promise<void>;
};

/** A state that stays readable. */
type Kept = {
  readonly version: number;
  /** With its indexes; undefined: the collection was not loaded, or the indexes were behind. */
  view: View | undefined;
  /** Where it was kept without a view. */
  readonly own: ReadTransaction | undefined;
  isBoundary: boolean;
  users: number;
  usedMs: number;
};

/** How long a state is kept that nobody uses, and how many are. */
const keptMs = 1_500;
const keptMax = 24;
/** How long one write is waited for before the deadline is looked at. */
const waitMs = 100;

/** Why a shard cannot answer at a version. @param boundary the latest that it has; 0: none */
export const passed = (version: number, boundary: number): QuiverError =>
  new QuiverError(
    "not_ready",
    `Version ${version} of a shard can no longer be read while so much is written. Send the request again.`,
    { passed_version: version, boundary_version: boundary, retry_after_seconds: 1 },
  );

/** The latest boundary of the shard that could not answer; undefined for any other error. */
export const boundaryOf = (error: unknown): number | undefined =>
  isQuiverError(error, "not_ready") && "passed_version" in error.details
    ? (error.details.boundary_version as number)
    : undefined;

function release({ view, own }: Kept): void {
  view?.unpin();
  own?.release();
}

export class ExactVersions {
  readonly #state: Served;
  readonly #kept = new Map<number, Kept>();
  #timer: Timer | undefined;

  constructor(state: Served) {
    this.#state = state;
  }

  /** What is kept of a version. */
  get(version: number): { readonly readTxn: ReadTransaction; readonly view: View | undefined } | undefined {
    const kept = this.#kept.get(version);
    return kept && { readTxn: kept.view?.readTxn ?? (kept.own as ReadTransaction), view: kept.view };
  }

  /** The latest boundary that is kept; 0: none is. */
  get boundary(): number {
    let latest = 0;
    for (const { version, isBoundary } of this.#kept.values())
      if (isBoundary && version > latest) latest = version;
    return latest;
  }

  /** The newest version that is served, and kept from now on. */
  get newest(): number {
    return this.#keep(false).version;
  }

  /** Keeps the current state, which is at a boundary of the log. */
  keepBoundary(): void {
    this.#keep(true);
    this.#drop();
  }

  /**
   * Runs `act` while a version is kept.
   * @throws `passed`, if it can no longer be read
   */
  async use<T>(version: number, deadline: Deadline, act: () => Promise<T>): Promise<T> {
    const kept = this.#kept.get(version) ?? (await this.#reach(version, deadline));
    const end = this.#hold(kept);
    try {
      return await act();
    } finally {
      end();
    }
  }

  /** Keeps a version that is in use until the result is called, once. */
  hold(version: number): () => void {
    const kept = this.#kept.get(version);
    invariant(kept !== undefined, `version ${version} is held, and not in use`);
    return this.#hold(kept);
  }

  #hold(kept: Kept): () => void {
    kept.users++;
    return () => {
      kept.users--;
      kept.usedMs = performance.now();
      this.#drop();
    };
  }

  async #reach(version: number, deadline: Deadline): Promise<Kept> {
    for (;;) {
      this.#state.gate.assertOpen();
      deadline.check();
      const head = this.#state.read((_, current) => current.version);
      const { indexer } = this.#state;
      if (head < version) await this.#state.nextWrite(waitMs, deadline);
      // A view can be behind the store.
      else if (indexer !== null && (indexer.viewAt(0)?.version ?? -1) < version)
        (await indexer.acquireView(version, [], deadline)).unpin();
      else {
        this.#keep(false);
        const kept = this.#kept.get(version);
        if (kept !== undefined) return kept;
        throw passed(version, this.boundary);
      }
    }
  }

  /** Keeps what is served now. */
  #keep(isBoundary: boolean): Kept {
    const view = this.#state.indexer?.viewAt(this.#state.seenVersion)?.pin();
    const own = view === undefined ? this.#state.newest() : undefined;
    const version = view?.version ?? readHead(own as ReadTransaction).version;
    const usedMs = performance.now();
    const before = this.#kept.get(version);
    if (before === undefined) {
      const kept: Kept = { version, view, own, isBoundary, users: 0, usedMs };
      this.#kept.set(version, kept);
      this.#timer ??= inBackground(setTimeout(() => this.#tick(), keptMs));
      return kept;
    }
    own?.release();
    if (before.view === undefined) before.view = view;
    else view?.unpin();
    before.isBoundary ||= isBoundary;
    before.usedMs = usedMs;
    return before;
  }

  #tick(): void {
    this.#timer = undefined;
    this.#drop();
    if (this.#kept.size > 0) this.#timer = inBackground(setTimeout(() => this.#tick(), keptMs));
  }

  /** Releases what was not used for a while, and the oldest of too many: of those that are no boundaries first. */
  #drop(): void {
    const oldMs = performance.now() - keptMs;
    let excess = this.#kept.size - keptMax;
    for (const ofBoundaries of [false, true])
      for (const [version, kept] of this.#kept) {
        const isOld = kept.usedMs <= oldMs;
        if (kept.isBoundary !== ofBoundaries || kept.users > 0 || (!isOld && excess <= 0)) continue;
        excess--;
        this.#kept.delete(version);
        release(kept);
      }
  }

  /** Releases all; the calls that used them have ended. */
  stop(): void {
    clearTimeout(this.#timer);
    for (const kept of this.#kept.values()) release(kept);
    this.#kept.clear();
  }
}
