// May a write make the indexes fall further behind?
//
// A record is searchable at once because searches take what the indexes have not got yet along: they updater it to the inverted ones,
// and scan it in the dense one's tail. So the backlog, the records between the slowest index and the newest version, is what searches
// pay for, and streaming writes must not make it grow without end.
//
//   backlog <= limit     writes go on
//   above                writes are let in at a share of the speed at which the indexes take records, in the order in which they came;
//                        so the backlog shrinks, and clients that wait for their answers are slowed down and never see a refusal
//   too long a wait      refused with `indexing_behind`, and nothing is changed
//
// A transaction's commit is not held up: it is one act, however large, and its status tells how far its indexing is.

import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type { Background } from "../base/background.ts";
import type { Deadline } from "../base/deadline.ts";

/** How far the indexes are, in records since the collection began. */
export type Standing = {
  /** Given to the slowest index, and in its final place. */
  readonly taken: number;
  /** Committed. */
  readonly committed: number;
  /** How far the one may be behind the other. */
  readonly limit: number;
};

type Waiting = { records: number; admit(): void; refuse(reason: unknown): void };

const lookEveryMs = 20;

export class Backlog {
  readonly #standing: () => Standing;
  #waiting: Waiting[] = [];
  /** Records that may still come in. */
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

  /** Resolves when a write of so many records may be made; undefined: at once. @throws indexing_behind, or what the deadline says */
  admit(records: number, deadline: Deadline): Promise<void> | undefined {
    const standing = this.#standing();
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

  /** Refuses those who wait. */
  stop(reason: unknown): void {
    for (const waiting of [...this.#waiting]) waiting.refuse(reason);
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
    const gained = Math.max(0, taken - (this.#takenBefore ?? taken)) * limits.indexBacklogShare;
    this.#takenBefore = taken;
    if (committed - taken <= limit) {
      this.#credit = 0;
      return true;
    }
    this.#credit = Math.min(limit, this.#credit + gained);
    // A write that is larger than the credit is let in on what comes next, so that none waits for ever.
    if (this.#credit <= 0) return false;
    this.#credit -= records;
    return true;
  }
}

function refusal({ taken, committed, limit }: Standing): QuiverError {
  return new QuiverError(
    "indexing_behind",
    `The indexes are ${committed - taken} records behind, of ${limit} that they may be, and more are written than they take. ` +
      "Nothing was changed. Write more slowly, or send the request again later.",
    { records_behind: committed - taken, limit, retry_after_seconds: 1 },
  );
}
