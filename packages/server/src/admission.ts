// Which requests start, which wait, and which are rejected at once?
//
//   headers are there --arrive--> [body arrives] --begin--> waiting --place--> first time slice --> at work --> answered
//                        \ refused: no room                    \ refused: waits for longer than `queueWaitMs`
//
// Every request belongs to a key, and keys share everything fairly (fair-share.ts): requests in the server, execution places, bytes of
// bodies and of unread responses. Requests with a place run in time slices, which the scheduler assigns by key, collection and size; places
// only bound how much is in memory at a time.
//
// There are places for each kind of work, and places for large work of any kind; a request holds one of them. Small requests therefore find
// a place while large ones of the same key wait for theirs. A request is large when its estimated work exceeds `largeWorkMs`. The first
// estimate comes from the length of its body; once the body is parsed, a better one replaces it.
//
// Among the requests of one key, the smallest starts first (fair-queue.ts).
//
// A request is rejected on arrival, before its body is read, if its key has reached its limit of requests, or if the request would wait too
// long at the rate at which the key's requests started recently. A request that has waited for `queueWaitMs` is rejected.

import { type Deadline, LevelQueue, levelOf, type Task } from "@quiverdb/engine/database/contract";
import { type WorkKind, workKinds } from "@quiverdb/engine/operations/operation";
import { QuiverError } from "@quiverdb/protocol/errors";
import { invariant } from "@quiverdb/protocol/invariant";
import { limits } from "@quiverdb/protocol/limits";
import { type Counts, FairShare } from "./fair-share.ts";

export type QueueName = WorkKind | "large";

/** Requests that are executed at a time: in total, and of one key. */
const placesOf: Readonly<Record<QueueName, readonly [max: number, keyMax: number]>> = {
  search: [192, 64],
  write: [768, 256],
  read: [768, 256],
  export: [limits.exportsMax, limits.exportsMax / 2],
  recall: [6, 2],
  administration: [192, 64],
  // They wait most of the time.
  feed: [4_096, 1_024],
  large: [limits.largeRunningMax, limits.largeRunningKeyMax],
};

/** Interval at which waiting requests are checked for expiry, in milliseconds. */
const lookMs = 20;
/** Number of starts before their intervals are used to predict a wait, and about the number of intervals in the mean. */
const intervalsMin = 8;
const intervalsOver = 32;

type Waiting = {
  readonly work: Work;
  readonly sinceMs: number;
  resolve(): void;
  reject(reason: unknown): void;
};

/** The requests of one key in one queue. */
class KeyQueue {
  /** Requests that have no place yet. */
  readonly queue = new LevelQueue<Waiting>();
  /** Requests that have no place, or have not had their first slice in it. */
  waiting = 0;
  /** Mean milliseconds between two starts while others waited, and the number of starts since the queue was last empty. */
  #intervalMs = 0;
  #intervals = 0;
  #lastBeganMs: number | undefined;

  began(nowMs: number): void {
    if (this.#lastBeganMs !== undefined) {
      this.#intervals = Math.min(this.#intervals + 1, intervalsOver);
      this.#intervalMs += (nowMs - this.#lastBeganMs - this.#intervalMs) / this.#intervals;
    }
    this.#lastBeganMs = this.waiting > 0 ? nowMs : undefined;
    if (this.waiting === 0) this.#intervals = 0;
  }

  /** Expected wait of a request that arrives now, in milliseconds, at the recent rate of starts. */
  get expectedWaitMs(): number {
    return this.#intervals < intervalsMin ? 0 : this.waiting * this.#intervalMs;
  }
}

/** Requests that wait for one kind of place, or have one. */
export class Queue {
  readonly name: QueueName;
  readonly #places: FairShare;
  readonly #waitMs: number;
  readonly #clock: () => number;
  readonly #keys = new Map<string, KeyQueue>();
  readonly #waiting = new Set<Waiting>();
  #looking: NodeJS.Timeout | undefined;
  refused = 0;
  /** Called with the wait of a request, in milliseconds, when it starts or is rejected. */
  onWaited: (ms: number) => void = () => {};

  /**
   * @param waitMs after which a waiting request is rejected
   * @param threads that share the places evenly: each has its own event loop
   */
  constructor(name: QueueName, waitMs: number, threads = 1, clock: () => number = () => performance.now()) {
    this.name = name;
    const [max, keyMax] = placesOf[name];
    this.#places = new FairShare(Math.ceil(max / threads), Math.ceil(keyMax / threads));
    this.#waitMs = waitMs;
    this.#clock = clock;
  }

  get running(): number {
    return this.#places.taken;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** @throws overloaded if a request of the key would wait too long */
  assertSoon(key: string): void {
    const waitMs = this.#keys.get(key)?.expectedWaitMs ?? 0;
    if (waitMs > this.#waitMs) throw this.#refusal(key, waitMs);
  }

  /** Waits for a place, and for the first slice in it. @throws overloaded, or the error of the deadline */
  enter(work: Work): Promise<void> {
    const { key } = work;
    let queue = this.#keys.get(key);
    if (queue === undefined) {
      queue = new KeyQueue();
      this.#keys.set(key, queue);
    }
    const level = levelOf(work.task.demandMs, limits.sliceMs);
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { work, sinceMs: this.#clock(), resolve, reject };
      queue.queue.add(waiting, level);
      queue.waiting++;
      this.#waiting.add(waiting);
      this.#looking ??= setInterval(() => this.look(), lookMs).unref();
      this.#fill(key, queue);
    });
  }

  /** Gives a place back. */
  leave(key: string): void {
    this.#places.giveBack(key);
    for (const [name, queue] of this.#keys) this.#fill(name, queue);
  }

  /** Rejects requests that have waited too long and removes those whose deadline is over. Called every `lookMs` while any wait. */
  look(): void {
    const nowMs = this.#clock();
    for (const waiting of this.#waiting) {
      const { work, sinceMs } = waiting;
      if (work.deadline.isOver) this.#refuse(waiting, work.deadline.reason);
      else if (nowMs - sinceMs > this.#waitMs) {
        this.#refuse(waiting, this.#refusal(work.key, nowMs - sinceMs));
      }
    }
    if (this.#waiting.size > 0) return;
    clearInterval(this.#looking);
    this.#looking = undefined;
  }

  #fill(key: string, queue: KeyQueue): void {
    while (queue.queue.size > 0 && this.#places.take(key)) {
      const next = queue.queue.take() as Waiting;
      next.work.task.slice().then(
        () => {
          this.#left(next);
          queue.began(this.#clock());
          next.resolve();
        },
        (reason: unknown) => {
          this.#left(next);
          this.leave(key);
          next.reject(reason);
        },
      );
    }
    if (queue.waiting === 0 && this.#places.heldBy(key) === 0) this.#keys.delete(key);
  }

  #refuse(waiting: Waiting, reason: unknown): void {
    const { work } = waiting;
    if (this.#keys.get(work.key)?.queue.remove(waiting)) {
      this.#left(waiting);
      waiting.reject(reason);
    } else work.task.cancel(reason);
  }

  /** It waits no longer. */
  #left(waiting: Waiting): void {
    this.#waiting.delete(waiting);
    const queue = this.#keys.get(waiting.work.key);
    if (queue !== undefined) {
      queue.waiting--;
      invariant(queue.waiting >= 0, () => `${queue.waiting} requests of a key wait`);
    }
    this.onWaited(this.#clock() - waiting.sinceMs);
  }

  #refusal(key: string, waitMs: number): QuiverError {
    this.refused++;
    const waiting = this.#keys.get(key)?.waiting ?? 0;
    const seconds = Math.max(1, Math.ceil(waitMs / 1_000));
    return new QuiverError(
      "overloaded",
      `The key has more ${this.name} work queued than the server can do soon: ${waiting} of its requests wait for about ` +
        `${Math.round(waitMs)} ms. This request was not executed. Send it again after ${seconds} s.`,
      { queue: this.name, waiting, wait_ms: Math.round(waitMs), retry_after_seconds: seconds },
    );
  }
}

/** The key, the kind of work and the estimated amount of a request. */
export type Arrival = {
  readonly kind: WorkKind;
  /** That pays. */
  readonly key: string;
  readonly deadline: Deadline;
};

/** All queues of a server. */
export class Admission {
  readonly queues: Readonly<Record<QueueName, Queue>>;
  readonly present: FairShare;
  readonly #answers: FairShare;
  /** Requests that were rejected on arrival, of all queues. */
  refused = 0;

  /**
   * @param waitMs after which a waiting request is rejected
   * @param keyRequestsMax requests of one key at a time
   * @param answers bytes of responses that clients have not read yet, by key
   * @param threads that share the places and `requests`, the counts of requests in progress
   */
  constructor(
    waitMs: number,
    keyRequestsMax: number,
    answers: FairShare,
    { threads, requests }: { threads: number; requests?: Counts | undefined } = { threads: 1 },
  ) {
    this.present = new FairShare(limits.requestsMax, keyRequestsMax, requests);
    this.#answers = answers;
    const names: QueueName[] = [...workKinds, "large"];
    this.queues = Object.fromEntries(
      names.map((name) => [name, new Queue(name, waitMs, threads)]),
    ) as Admission["queues"];
  }

  /** The headers of a request have arrived, its body not yet. @throws overloaded */
  arrive({ kind, key, deadline }: Arrival): Work {
    if (this.#answers.heldBy(key) > 0 && !this.#answers.hasRoom(key, 0))
      throw this.#full(
        "answers",
        "has reached its limit of unread response bytes",
        this.#answers.heldBy(key),
      );
    this.queues[kind].assertSoon(key);
    if (!this.present.take(key))
      throw this.#full("requests", "has reached its limit of requests in progress", this.present.heldBy(key));
    return new Work(this, kind, key, deadline);
  }

  #full(what: string, does: string, held: number): QuiverError {
    this.refused++;
    return new QuiverError(
      "overloaded",
      `The key ${does}: ${held}. This request was not executed. Send it again later.`,
      { queue: what, held, retry_after_seconds: 1 },
    );
  }
}

/** One request: its place and its time slices. */
export class Work {
  readonly key: string;
  readonly task: Task;
  readonly deadline: Deadline;
  readonly #admission: Admission;
  readonly #kind: WorkKind;
  #place: QueueName | undefined;
  #beginning: Promise<void> | undefined;
  #isPresent = true;
  #isHeld = 0;

  constructor(admission: Admission, kind: WorkKind, key: string, deadline: Deadline) {
    this.#admission = admission;
    this.#kind = kind;
    this.key = key;
    this.deadline = deadline;
    this.task = deadline.task;
  }

  /** Waits for a place and the first slice; the first call counts. @throws overloaded, deadline_exceeded */
  begin(): Promise<void> {
    this.#beginning ??= this.#enter(this.task.demandMs > limits.largeWorkMs ? "large" : this.#kind);
    return this.#beginning;
  }

  /**
   * Updates the estimate of the work. A request that turns out to be large waits for a place for large work; any other has its place, and exports have places
   * of their own. @throws overloaded
   */
  expect(ms: number): Promise<void> | undefined {
    this.task.expect(ms);
    if (ms <= limits.largeWorkMs || this.#place === "large" || this.#place === "export") return undefined;
    this.end();
    return this.#enter("large");
  }

  async #enter(name: QueueName): Promise<void> {
    await this.#admission.queues[name].enter(this);
    this.#place = name;
    if (!this.#isPresent) this.end();
  }

  /** Keeps the place after the handler has ended, for work that continues. The returned function ends that. */
  hold(): () => void {
    this.#isHeld++;
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#isHeld--;
      this.end();
    };
  }

  /** Releases the place, unless it is held. */
  end(): void {
    if (this.#place === undefined || this.#isHeld > 0) return;
    const place = this.#place;
    this.#place = undefined;
    this.#admission.queues[place].leave(this.key);
  }

  /** The response was sent, or the client disconnected. */
  left(): void {
    if (!this.#isPresent) return;
    this.#isPresent = false;
    this.#isHeld = 0;
    this.end();
    this.#admission.present.giveBack(this.key);
  }
}
