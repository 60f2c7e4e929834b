// How is a collection checked while it is served?
//
//   1. The dense index in memory is written to a temporary file, like a checkpoint, because another thread compares it.
//   2. A thread (check-thread.ts) reads the store under a read transaction, and compares that file with the records.
//   3. Meanwhile the request thread compares the inverted indexes in memory with the records of one view, in slices (index-comparison.ts).
//
// Such a thread also reads the files of snapshots. A check ends when its collection closes. A database runs one check at a time, because
// a check reads everything that is stored.

import { rmSync } from "node:fs";
import { QuiverError } from "@quiverdb/protocol/errors";
import type { CheckReport } from "@quiverdb/protocol/shapes/check";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { CollectionDefinition } from "../../collection/definition.ts";
import { CalledThread } from "../../runtime/calls.ts";

export class RunningCheck {
  readonly #thread = new CalledThread(new URL("./check-thread.ts", import.meta.url), {
    name: "check",
    start: null,
  });
  readonly report: Promise<CheckReport>;
  #stopReason: Error | undefined;

  constructor(start: CheckStart) {
    this.report = this.#answer(start).finally(() => {
      if (start.kind === "collection") for (const { path } of start.images) rmSync(path, { force: true });
    });
  }

  async #answer(start: CheckStart): Promise<CheckReport> {
    try {
      return await this.#thread.callOnce<CheckReport>("check", start);
    } catch (cause) {
      if (this.#stopReason !== undefined) throw this.#stopReason;
      throw new QuiverError("internal", "The check failed; the log has the reason.", {}, { cause });
    }
  }

  /** Cancels the check, which then rejects with `reason`. */
  stop(reason: Error): void {
    this.#stopReason = reason;
    this.#thread.calls.end(reason);
  }
}

// ---- What is a thread called for that checks a collection or its snapshots?

export type CheckStart = CollectionCheckStart | SnapshotCheckStart;

type SnapshotCheckStart = {
  readonly kind: "snapshots";
  readonly dataDir: string;
  /** Only the snapshots of the collection with this name. */
  readonly collection: string | undefined;
};

type CollectionCheckStart = {
  readonly kind: "collection";
  /** The directory of the collection. */
  readonly directory: string;
  readonly definition: CollectionDefinition;
  /** Files with the indexes that were in memory, for comparison with the records. */
  readonly images: readonly IndexImage[];
};

/** An index that was in memory, written to a file like a checkpoint. */
export type IndexImage = { readonly kind: IndexKind; readonly path: string };
