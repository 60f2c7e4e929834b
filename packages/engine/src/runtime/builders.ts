// How does the request thread use the builder threads?
//
// A pool of threads runs tasks (index/builders.ts). What a task works on is described to a thread with the first task for it. Each collection
// has a share of the threads (`share`), so it need not wait for all tasks of another collection. Threads start with the first task, end when
// they have had none for a while, since each takes 15 MB of memory, and do not keep the process alive.

import { availableParallelism } from "node:os";
import type { Background } from "../base/background.ts";
import { Deadline } from "../base/deadline.ts";
import type { BuilderPlace, Builders, Outcome, SiteOf, Task } from "../index/builders.ts";
import type { ForgetCall, TaskCall } from "./builder-thread.ts";
import { CalledThread } from "./calls.ts";

/** Default number of builders: all cores but one, which is for requests. */
const defaultBuilders = (): number => Math.max(1, Math.min(8, availableParallelism() - 1));

/** A thread without a task for this long ends. A new one takes a fifth of a second of processor time to start. */
const idleMs = 20_000;

class Thread {
  readonly #thread: CalledThread;
  /** Ids of the sites that were described to the thread. */
  readonly #known = new Set<number>();
  isLost = false;
  readonly #background: Background;
  #idle: NodeJS.Timeout | undefined;

  constructor(start: BuilderPlace, background: Background) {
    this.#background = background;
    this.#thread = new CalledThread(new URL("./builder-thread.ts", import.meta.url), {
      name: `builder ${start.number}`,
      start,
      onEnd: (cause) => {
        this.isLost = true;
        return cause;
      },
    });
    this.#thread.worker.unref();
  }

  get load(): number {
    return this.#thread.calls.pending;
  }

  send<Request, Answer, Site>(
    owner: number,
    { name, handedOver }: Task<Request, Answer, Site>,
    request: Request,
    done: Outcome<Answer>,
    site: SiteOf<Site> | undefined,
  ): void {
    clearTimeout(this.#idle);
    const call: TaskCall = { owner, name, request, ...(site !== undefined && { site: this.#posted(site) }) };
    const tell = (error: unknown, answer: Answer | null) => {
      if (this.load === 0 && !this.isLost) this.#endLater();
      this.#background.once("applying the result of a builder", () => done(error, answer));
    };
    this.#thread.calls.call<Answer>("task", call, Deadline.none, handedOver?.(request) ?? []).then(
      (answer) => tell(null, answer),
      (error) => tell(error, null),
    );
  }

  #posted(site: SiteOf<unknown>): TaskCall["site"] {
    if (this.#known.has(site.id)) return { id: site.id };
    this.#known.add(site.id);
    return { id: site.id, description: site.describe() };
  }

  forget(owner: number, id: number): void {
    if (!this.#known.delete(id) || this.isLost) return;
    clearTimeout(this.#idle);
    const call: ForgetCall = { owner, id };
    const end = () => {
      if (this.load === 0 && !this.isLost) this.#endLater();
    };
    // A thread that ends meanwhile forgets everything.
    this.#thread.calls.call("forget", call, Deadline.none).then(end, end);
  }

  async stop(): Promise<void> {
    this.isLost = true;
    clearTimeout(this.#idle);
    await this.#thread.stop();
  }

  #endLater(): void {
    clearTimeout(this.#idle);
    const end = () => this.#background.once("ending an idle builder", () => this.stop());
    this.#idle = setTimeout(end, idleMs).unref();
  }
}

/** The threads, and how many owners share them. */
class Pool {
  readonly threads: (Thread | undefined)[];
  readonly #background: Background;
  owners = 0;
  isClosed = false;

  constructor(background: Background, width: number) {
    this.#background = background;
    this.threads = new Array(width).fill(undefined);
  }

  /** The thread with the fewest pending tasks. Replaces threads that died. */
  thread(): Thread {
    const width = this.threads.length;
    let least: Thread | undefined;
    for (let number = 0; number < width; number++) {
      let thread = this.threads[number];
      if (thread === undefined || thread.isLost) {
        thread = new Thread({ number, width }, this.#background);
        this.threads[number] = thread;
      }
      if (thread.load === 0) return thread;
      if (least === undefined || thread.load < least.load) least = thread;
    }
    return least as Thread;
  }
}

export class BuilderThreads implements Builders {
  readonly width: number;
  readonly isInPlace = false;
  readonly #pool: Pool;
  readonly #owner: number;
  readonly #background: Background;

  /** @param width 1 to 64 threads */
  constructor(background: Background, width = defaultBuilders(), pool = new Pool(background, width)) {
    this.width = width;
    this.#background = background;
    this.#pool = pool;
    this.#owner = pool.owners++;
  }

  /** The same threads for another owner. All owners with pending tasks get equal time. */
  share(): BuilderThreads {
    return new BuilderThreads(this.#background, this.width, this.#pool);
  }

  run<Request, Answer, Site>(
    task: Task<Request, Answer, Site>,
    request: Request,
    done: Outcome<Answer>,
    site?: SiteOf<Site>,
  ): void {
    if (!this.#pool.isClosed) this.#pool.thread().send(this.#owner, task, request, done, site);
  }

  forget(id: number): void {
    for (const thread of this.#pool.threads) thread?.forget(this.#owner, id);
  }

  /** Ends the threads for all owners. Pending tasks never get a reply. */
  async close(): Promise<void> {
    this.#pool.isClosed = true;
    await Promise.all(this.#pool.threads.map((thread) => thread?.stop()));
  }
}
