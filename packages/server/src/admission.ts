// Who may begin, who waits, and who is sent away at once?
//
// Each kind of work has a lane of its own, so that searches do not starve writes, nor long work short work:
//
//   headers are there --arrive--> [body arrives] --enter--> waiting (in order) --> running --> answered
//                        \ refused: the lane is full, or the wait would be too long, or the event loop is late
//
// A request is refused before its body is read and parsed, which costs some 50 microseconds; an accepted one begins within about
// `queueWaitMs`. How long the wait would be is known from the lane itself: how many wait, and at which intervals they began lately.
//
// Searches and validations run in the thread that also reads from the connections. Within one turn of its event loop a lane begins
// no more work once `turnMs` are over: otherwise a turn would take as long as all that arrived during the last one, each longer than
// the one before, and refusals would wait as long as everything else.

import { type Deadline, nextTurn } from "@quiver/engine/database/contract";
import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type { RouteName } from "@quiver/protocol/routes";

export type LaneName = "search" | "write" | "read" | "recall" | "administration";

type LaneLimits = {
  /** Requests that run at a time. */
  readonly runningMax: number;
  /** Requests that have arrived and do not run yet, their bodies included that are still arriving. */
  readonly waitingMax: number;
  /** Whether a long wait is a reason to refuse. */
  readonly isQuick: boolean;
};

/** A search holds a version of its collection, so not many run at a time; writes of one group commit wait for it together. */
const laneLimits: Readonly<Record<LaneName, LaneLimits>> = {
  search: { runningMax: 16, waitingMax: 4_096, isQuick: true },
  write: { runningMax: 256, waitingMax: 4_096, isQuick: true },
  read: { runningMax: 256, waitingMax: 4_096, isQuick: true },
  recall: { runningMax: 2, waitingMax: 16, isQuick: false },
  administration: { runningMax: 64, waitingMax: 1_024, isQuick: false },
};

const writes: ReadonlySet<RouteName> = new Set<RouteName>([
  "createTransaction",
  "commitTransaction",
  "abortTransaction",
  "addVector",
  "upsertVectors",
  "deleteVectorInTransaction",
  "deleteVector",
  "streamingUpsert",
  "streamingDelete",
  "streamingDeleteAlias",
]);
const administration: ReadonlySet<RouteName> = new Set<RouteName>([
  "createCollection",
  "deleteCollection",
  "loadCollection",
  "unloadCollection",
  "createDenseIndex",
  "createSparseIndex",
  "createTextIndex",
  "deleteIndex",
  "checkCollection",
  "checkSnapshots",
  "checkAllSnapshots",
  "createSnapshot",
  "uploadSnapshot",
  "deleteSnapshot",
  "restoreCollection",
]);

/** The lane of an endpoint. */
export function laneOf(name: RouteName): LaneName {
  if (name.startsWith("search")) return "search";
  if (name === "measureRecall") return "recall";
  if (writes.has(name)) return "write";
  return administration.has(name) ? "administration" : "read";
}

/** Milliseconds of one turn of the event loop in which a lane begins work. */
const turnMs = 10;
/** Beginnings that are seen before their intervals say how long a wait is, and over about how many the mean is taken. */
const intervalsMin = 8;
const intervalsOver = 32;

type Waiting = { readonly sinceMs: number; begin(): void };

export class Lane {
  readonly name: LaneName;
  readonly #limits: LaneLimits;
  readonly #waitMs: number;
  /** In the order in which they came. */
  readonly #waiting = new Set<Waiting>();
  /** Arrived and not answered. */
  present = 0;
  running = 0;
  refused = 0;
  /** Mean milliseconds between two that began while others waited, and how many were seen since none waited. */
  #intervalMs = 0;
  #intervals = 0;
  #lastBeganMs: number | undefined;
  #turnEndMs = 0;
  #isTurnScheduled = false;

  /** @param waitMs longest wait for which a request is accepted, about */
  constructor(name: LaneName, waitMs: number) {
    this.name = name;
    this.#limits = laneLimits[name];
    this.#waitMs = this.#limits.isQuick ? waitMs : Number.POSITIVE_INFINITY;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Milliseconds that a request which comes now would wait, about. */
  get expectedWaitMs(): number {
    const [oldest] = this.#waiting;
    if (oldest === undefined) return 0;
    const byInterval = this.#intervals < intervalsMin ? 0 : this.waiting * this.#intervalMs;
    return Math.max(performance.now() - oldest.sinceMs, byInterval);
  }

  /** @returns to be called when the request is answered, or gone. @throws overloaded */
  arrive(): () => void {
    const { runningMax, waitingMax } = this.#limits;
    const waitMs = this.expectedWaitMs;
    if (this.present >= runningMax + waitingMax || waitMs > this.#waitMs) {
      this.refused++;
      throw tooMuch(this, waitMs);
    }
    this.present++;
    return () => {
      this.present--;
    };
  }

  /** Waits for its turn. @returns to be called when the work is done. @throws what the deadline says */
  enter(deadline: Deadline): (() => void) | Promise<() => void> {
    deadline.check();
    if (this.waiting === 0 && this.#hasRoom()) return this.#begin();
    return new Promise((resolve, reject) => {
      let end = () => {};
      const waiting: Waiting = {
        sinceMs: performance.now(),
        begin: () => {
          end();
          resolve(this.#begin());
        },
      };
      this.#waiting.add(waiting);
      end = deadline.onOver((reason) => {
        this.#waiting.delete(waiting);
        reject(reason);
      });
      this.#scheduleTurn();
    });
  }

  #hasRoom(): boolean {
    if (this.running >= this.#limits.runningMax) return false;
    const nowMs = performance.now();
    if (this.#isTurnScheduled) return nowMs < this.#turnEndMs;
    this.#turnEndMs = nowMs + turnMs;
    this.#scheduleTurn();
    return true;
  }

  #scheduleTurn(): void {
    if (this.#isTurnScheduled) return;
    this.#isTurnScheduled = true;
    void nextTurn().then(() => {
      this.#isTurnScheduled = false;
      this.#next();
    });
  }

  /** Begins the one that has waited longest, if there is room. */
  #next(): void {
    const [oldest] = this.#waiting;
    if (oldest === undefined) {
      this.#lastBeganMs = undefined;
      this.#intervals = 0;
      return;
    }
    if (!this.#hasRoom()) return;
    this.#waiting.delete(oldest);
    const nowMs = performance.now();
    if (this.#lastBeganMs !== undefined) {
      this.#intervals = Math.min(this.#intervals + 1, intervalsOver);
      this.#intervalMs += (nowMs - this.#lastBeganMs - this.#intervalMs) / this.#intervals;
    }
    this.#lastBeganMs = nowMs;
    oldest.begin();
  }

  #begin(): () => void {
    this.running++;
    let isRunning = true;
    return () => {
      if (!isRunning) return;
      isRunning = false;
      this.running--;
      this.#next();
    };
  }
}

function tooMuch({ name, waiting }: Lane, waitMs: number): QuiverError {
  const retryAfter = Math.max(1, Math.ceil(waitMs / 1_000));
  return new QuiverError(
    "overloaded",
    `More ${name} work has come than the server does soon: ${waiting} requests wait, for about ${Math.round(waitMs)} ms. ` +
      `Nothing of this one was done. Send it again after ${retryAfter} s.`,
    { queue: name, waiting, wait_ms: Math.round(waitMs), retry_after_seconds: retryAfter },
  );
}

/** How often the lateness of the event loop is looked at, in milliseconds. */
const tickMs = 100;

/** Is the event loop late again and again? One late turn, such as a large body's parsing, is no reason to refuse anybody. */
export class Lateness {
  readonly #timer: NodeJS.Timeout;
  #tickedMs = performance.now();
  #lateMs = 0;

  constructor() {
    this.#timer = setInterval(() => {
      const nowMs = performance.now();
      this.#lateMs = Math.max(0, nowMs - this.#tickedMs - tickMs);
      this.#tickedMs = nowMs;
    }, tickMs);
    this.#timer.unref();
  }

  /** Milliseconds by which the loop was late in its last turn, and is in this one already: the smaller of both. */
  get ms(): number {
    return Math.min(this.#lateMs, Math.max(0, performance.now() - this.#tickedMs - tickMs));
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

/** All lanes of a server, and what else speaks against more work. */
export class Admission {
  readonly lanes: Readonly<Record<LaneName, Lane>>;
  readonly #lateness = new Lateness();
  readonly #lateMsMax: number;
  readonly #answers: { readonly bytes: number; readonly bytesMax: number };

  /** @param answers bytes of answers that clients have not read yet */
  constructor(waitMs: number, answers: { readonly bytes: number; readonly bytesMax: number }) {
    this.#answers = answers;
    this.#lateMsMax = limits.eventLoopLateShare * waitMs;
    const names = Object.keys(laneLimits) as LaneName[];
    this.lanes = Object.fromEntries(
      names.map((name) => [name, new Lane(name, waitMs)]),
    ) as Admission["lanes"];
  }

  /** A request for an endpoint is there, its body not yet. @returns to be called when it is answered, or gone. @throws overloaded */
  arrive(name: RouteName): () => void {
    const lane = this.lanes[laneOf(name)];
    const isLate = this.#lateness.ms > this.#lateMsMax;
    if (isLate || this.#answers.bytes > this.#answers.bytesMax) {
      lane.refused++;
      throw new QuiverError(
        "overloaded",
        isLate
          ? `The server's event loop is ${Math.round(this.#lateness.ms)} ms late. Nothing of this request was done. Send it again later.`
          : "The server holds as many unread answers as it may. Nothing of this request was done. Send it again later.",
        { queue: isLate ? "event_loop" : "answers", retry_after_seconds: 1 },
      );
    }
    return lane.arrive();
  }

  stop(): void {
    this.#lateness.stop();
  }
}
