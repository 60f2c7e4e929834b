// May a write make the indexes fall further behind?
//
// A record is searchable at once because a search adds the missing records to the inverted indexes, and scans them in the buffer of the
// dense one. Searches pay for the backlog (the records between the slowest index and the newest version), so streaming writes must not
// let it grow without bound.
//
//   backlog <= limit     writes go on
//   above                writes are admitted in order, at a share of the speed of the indexes: the backlog shrinks, and clients that wait
//                        for their answers slow down without ever seeing an error
//   too long a wait      rejected with `indexing_behind`; nothing is changed
//
// The commit of a transaction is not delayed: it is one operation, however large, and its status reports the progress of indexing.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { Background } from "../base/background.ts";
import type { Deadline } from "../base/deadline.ts";
import { invariant } from "../base/invariant.ts";

/** Positions of the indexes and of the log, in records since the collection was created. */
export type Standing = {
  /** Records that the slowest index has in their final places. */
  readonly taken: number;
  /** Committed. */
  readonly committed: number;
  /** Largest allowed difference. */
  readonly limit: number;
};

type Waiting = { records: number; admit(): void; refuse(reason: unknown): void };

const lookEveryMs = 20;

export class Backlog {
  readonly #standing: () => Standing;
  #waiting: Waiting[] = [];
  /** Records that may still be admitted. */
  #credit = 0;
  #takenBefore: number | undefined;
  #stopLooking: (() => void) | undefined;
  readonly #background: Background;

  constructor(standing: () => Standing, background: Background) {
    this.#standing = standing;
    this.#background = background;
  }

  /** Writes that wait. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Resolves when a write of this many records is admitted; undefined: at once. @throws indexing_behind, or the error of the deadline */
  admit(records: number, deadline: Deadline): Promise<void> | undefined {
    const standing = this.#standing();
    invariant(records > 0, () => `a write of ${records} records is admitted`);
    if (this.#waiting.length === 0 && this.#hasRoom(standing, records)) return undefined;
    if (this.#waiting.length >= limits.indexBacklogWaitingMax) return Promise.reject(refusal(standing));
    return new Promise((resolve, reject) => {
      const leave = (act: () => void) => {
        this.#waiting = this.#waiting.filter((other) => other !== waiting);
        clearTimeout(timer);
        endDeadline();
        act();
      };
      const waiting: Waiting = {
        records,
        admit: () => leave(resolve),
        refuse: (reason) => leave(() => reject(reason)),
      };
      this.#waiting.push(waiting);
      const timer = setTimeout(() => waiting.refuse(refusal(standing)), limits.indexBacklogWaitMs);
      let endDeadline = () => {};
      endDeadline = deadline.onOver((reason) => waiting.refuse(reason));
      this.#stopLooking ??= this.#background.every("letting writes in", lookEveryMs, () => this.#look());
    });
  }

  /** Rejects the waiting writes. */
  stop(reason: unknown): void {
    for (const waiting of [...this.#waiting]) waiting.refuse(reason);
    invariant(this.#waiting.length === 0, `${this.#waiting.length} writes wait after the end`);
    this.#look();
  }

  #look(): void {
    while (this.#waiting.length > 0 && this.#hasRoom(this.#standing(), this.#waiting[0].records))
      this.#waiting[0].admit();
    if (this.#waiting.length > 0) return;
    this.#stopLooking?.();
    this.#stopLooking = undefined;
  }

  #hasRoom({ taken, committed, limit }: Standing, records: number): boolean {
    invariant(
      taken <= committed && limit >= 0,
      () => `the indexes have ${taken} records of ${committed}, and may be ${limit} behind`,
    );
    const gained = Math.max(0, taken - (this.#takenBefore ?? taken)) * limits.indexBacklogShare;
    this.#takenBefore = taken;
    if (committed - taken <= limit) {
      this.#credit = 0;
      return true;
    }
    this.#credit = Math.min(limit, this.#credit + gained);
    // A write that is larger than the credit borrows from later credit, so no write waits for ever.
    if (this.#credit <= 0) return false;
    this.#credit -= records;
    return true;
  }
}

function refusal({ taken, committed, limit }: Standing): QuiverError {
  return new QuiverError(
    "indexing_behind",
    `The indexes are ${committed - taken} records behind (the limit is ${limit}), and records are written faster than they are indexed. ` +
      "Nothing was changed. Write more slowly, or send the request again later.",
    { records_behind: committed - taken, limit, retry_after_seconds: 1 },
  );
}
