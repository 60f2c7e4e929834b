// Which version do all indexes have in full, every record in its final place?
//
// Indexes first put records into a mutable buffer or a tail, and link them in the background. A published version is remembered until all
// of its records are in their final places.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { Deadline } from "../base/deadline.ts";
import { invariant } from "../base/invariant.ts";
import type { View } from "../views/view.ts";

/** Versions that are remembered. */
const incompleteMax = 1_000;

export class Completion {
  readonly #onComplete: (version: number) => void;
  /** Published versions that are not complete, ascending, and the ordinals that they end at. */
  #incomplete: { version: number; ordinalEnd: number }[] = [];
  /** Version up to which every index has applied all changes; -1 during the first build of one. */
  watermark = -1;
  /** Version up to which every index has all records in their final places; -1 for none yet. */
  completed = -1;

  /** @param onComplete called with each greater `completed` */
  constructor(onComplete: (version: number) => void) {
    this.#onComplete = onComplete;
  }

  /**
   * Records that every index has applied all changes of a version, whose records have ordinals below `ordinalEnd`.
   * @returns whether that is new
   */
  rise(version: number, ordinalEnd: number): boolean {
    if (this.watermark >= version) return false;
    const last = this.#incomplete.at(-1);
    invariant(
      last === undefined || (last.version <= version && last.ordinalEnd <= ordinalEnd),
      () =>
        `version ${version} ends at ordinal ${ordinalEnd}, after version ${last?.version} at ${last?.ordinalEnd}`,
    );
    this.watermark = version;
    // An index that was added meanwhile has caught up with a version that others had reached, and that still waits.
    if (last?.version === version) return true;
    // If very many wait, the newest two are merged into one.
    if (this.#incomplete.length >= incompleteMax) this.#incomplete.pop();
    this.#incomplete.push({ version, ordinalEnd });
    return true;
  }

  /** All records with smaller ordinals are in their final places. */
  reach(ordinalEnd: number): void {
    let version = -1;
    while (this.#incomplete.length > 0 && this.#incomplete[0].ordinalEnd <= ordinalEnd)
      version = (this.#incomplete.shift() as { version: number }).version;
    if (version <= this.completed) return;
    invariant(
      version <= this.watermark || this.watermark < 0,
      () => `version ${version} is complete, and the indexes are at ${this.watermark}`,
    );
    this.completed = version;
    this.#onComplete(version);
  }
}

// ---- Which calls wait for a view, and how does each wait end?
//
// A wait ends with a usable view, with the caller's deadline, with a failure of indexing, or because the index was deleted. Calls that help
// with the indexing (indexer.ts) do not wait; between two slices they check whether their work has become pointless.

type Waiter = {
  readonly version: number;
  readonly kinds: readonly IndexKind[];
  resolve(view: View): void;
  reject(error: unknown): void;
};

/** A call that helps with the indexing; `refusal` is set once its work is pointless. */
export type Working = { readonly kinds: readonly IndexKind[]; refusal?: { reason: unknown } };

export class ViewWaiters {
  #waiters: Waiter[] = [];
  readonly #working = new Set<Working>();

  /** Waits for a view at `version` or later that has some indexes, pinned for the caller. */
  wait(version: number, kinds: readonly IndexKind[], deadline: Deadline): Promise<View> {
    return new Promise((resolve, reject) => {
      if (this.#waiters.length >= limits.viewWaitersMax) {
        reject(
          new QuiverError(
            "overloaded",
            `${this.#waiters.length} searches wait for the collection's indexes already. Send the request again later.`,
          ),
        );
        return;
      }
      const waiter: Waiter = { version, kinds, resolve, reject };
      const end = deadline.onOver((reason) => {
        this.#waiters = this.#waiters.filter((other) => other !== waiter);
        reject(reason);
      });
      if (deadline.isOver) return;
      waiter.resolve = (reached) => {
        end();
        resolve(reached);
      };
      waiter.reject = (error) => {
        end();
        reject(error);
      };
      this.#waiters.push(waiter);
    });
  }

  /** Helps with the indexing; `work` checks its refusal between two slices. */
  async along<T>(kinds: readonly IndexKind[], work: (working: Working) => Promise<T>): Promise<T> {
    const working: Working = { kinds };
    this.#working.add(working);
    try {
      return await work(working);
    } finally {
      this.#working.delete(working);
    }
  }

  /** Passes a new view to all calls that can use it. */
  serve(view: View): void {
    const isServed = ({ version, kinds }: Waiter) => view.serves(version, kinds);
    const served = this.#waiters.filter(isServed);
    this.#waiters = this.#waiters.filter((waiter) => !isServed(waiter));
    for (const waiter of served) {
      invariant(
        waiter.version <= view.version,
        () => `who waits for version ${waiter.version} gets a view of version ${view.version}`,
      );
      waiter.resolve(view.pin());
    }
  }

  /** Rejects the calls that need an index. */
  refuse(kind: IndexKind, reason: unknown): void {
    const refused = this.#waiters.filter((waiter) => waiter.kinds.includes(kind));
    this.#waiters = this.#waiters.filter((waiter) => !waiter.kinds.includes(kind));
    for (const waiter of refused) waiter.reject(reason);
    for (const each of this.#working) if (each.kinds.includes(kind)) each.refusal = { reason };
  }

  /** Rejects all waiting calls. */
  refuseAll(reason: unknown): void {
    for (const waiter of this.#waiters.splice(0)) waiter.reject(reason);
    invariant(this.#waiters.length === 0, `${this.#waiters.length} searches wait after all were refused`);
  }
}
