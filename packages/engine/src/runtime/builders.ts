// How does the request thread use the builder threads?
//
// A pool of threads runs the jobs on graphs (index/hnsw/jobs.ts), analyses texts, and reads and writes checkpoints. A thread gets a
// graph with the first job for it. Each collection has a share of the threads (`share`), so it need not wait for all tasks of
// another collection. Threads start with the first task, end when they have had none for a while, since each takes 15 MB of memory, and
// do not keep the process alive.

import { availableParallelism } from "node:os";
import type { Finding } from "@quiverdb/protocol/shapes/check";
import type { Background } from "../base/background.ts";
import { Deadline } from "../base/deadline.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import type { CheckpointMeta } from "../index/checkpoint-adapter.ts";
import type { Candidates } from "../index/contract.ts";
import type { CalibrationRequest } from "../index/hnsw/calibrate.ts";
import type { EncodingState } from "../index/hnsw/encoding.ts";
import type { GraphBuilders, GraphJob, Target } from "../index/hnsw/jobs.ts";
import type { TruthRequest } from "../index/hnsw/truth.ts";
import type { TextAnalysisOptions, TextRows } from "../index/kind.ts";
import type { AnalysedTexts } from "../index/text/analysed.ts";
import type { BuilderStart, BuilderTask, TaskCall } from "./builder-thread.ts";
import { CalledThread } from "./calls.ts";

/** Default number of builders: all cores but one, which is for requests. */
export const defaultBuilders = (): number => Math.max(1, Math.min(8, availableParallelism() - 1));

/** A thread without a task for this long ends. A new one takes a fifth of a second of processor time to start. */
const idleMs = 20_000;

type Done = (error: unknown, value: unknown) => void;

class Thread {
  readonly #thread: CalledThread;
  /** Ids of the graphs that the thread has received. */
  readonly known = new Set<number>();
  isLost = false;
  readonly #background: Background;
  #idle: NodeJS.Timeout | undefined;

  constructor(start: BuilderStart, background: Background) {
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

  send(owner: number, task: BuilderTask, done: Done): void {
    clearTimeout(this.#idle);
    const call: TaskCall = { owner, task };
    const tell = (error: unknown, value: unknown) => {
      if (this.load === 0 && !this.isLost) this.#endLater();
      this.#background.once("applying the result of a builder", () => done(error, value));
    };
    this.#thread.calls.call("task", call, Deadline.none, handedOver(task)).then(
      (value) => tell(null, value),
      (error) => tell(error, null),
    );
  }

  forget(owner: number, id: number): void {
    if (this.known.delete(id)) this.send(owner, { kind: "forget", id }, () => undefined);
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

/** Buffers whose ownership passes to the thread with a task. */
function handedOver(task: BuilderTask): ArrayBuffer[] {
  if (task.kind === "analyse") return [task.rows.bytes.buffer as ArrayBuffer];
  return task.kind === "job" && task.job.kind === "insert" ? [task.job.vectors.buffer as ArrayBuffer] : [];
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

export class Builders implements GraphBuilders {
  readonly width: number;
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
  share(): Builders {
    return new Builders(this.#background, this.width, this.#pool);
  }

  #send(task: BuilderTask, done: Done): void {
    if (!this.#pool.isClosed) this.#pool.thread().send(this.#owner, task, done);
  }

  run({ id, graph, encoding }: Target, job: GraphJob, done: (error: unknown) => void): void {
    if (this.#pool.isClosed) return;
    const thread = this.#pool.thread();
    const isKnown = thread.known.has(id);
    thread.known.add(id);
    const target = isKnown ? {} : { target: { id, graph: graph.shared, encoding: encoding.toState() } };
    thread.send(this.#owner, { kind: "job", id, job, ...target }, (error) => done(error));
  }

  calibrate(request: CalibrationRequest, done: (error: unknown, state: EncodingState | null) => void): void {
    this.#send({ kind: "calibrate", request }, (error, value) => done(error, value as EncodingState | null));
  }

  truth(request: TruthRequest, done: (error: unknown, truths: Candidates[] | null) => void): void {
    this.#send({ kind: "truth", request }, (error, value) => done(error, value as Candidates[] | null));
  }

  forget(id: number): void {
    for (const thread of this.#pool.threads) thread?.forget(this.#owner, id);
  }

  /** Analyses the texts of stored records. Takes ownership of their bytes. */
  analyse(rows: TextRows, analysis: TextAnalysisOptions): Promise<AnalysedTexts> {
    return this.#ask({ kind: "analyse", rows, analysis }) as Promise<AnalysedTexts>;
  }

  /** Writes a checkpoint. The images lie in shared memory and must not change until it resolves. */
  save(path: string, meta: CheckpointMeta, state: unknown, images: readonly Uint8Array[]): Promise<void> {
    return this.#ask({ kind: "save", path, meta, state, images }) as Promise<void>;
  }

  /** Reads the description and the state of a checkpoint. @throws if it is missing or damaged */
  open<State>(path: string): Promise<{ meta: CheckpointMeta; state: State }> {
    return this.#ask({ kind: "open", path }) as Promise<{ meta: CheckpointMeta; state: State }>;
  }

  /** Reads the images into shared memory. @throws if they are damaged */
  load(path: string, images: readonly Uint8Array[]): Promise<void> {
    return this.#ask({ kind: "load", path, images }) as Promise<void>;
  }

  /** Verifies the store of a collection, which must not be open. @throws if its file is entirely unreadable */
  verify(directory: string, definition: CollectionDefinition): Promise<Finding[]> {
    return this.#ask({ kind: "verify", directory, definition }) as Promise<Finding[]>;
  }

  #ask(task: BuilderTask): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#pool.isClosed) reject(new Error("the builders have ended"));
      this.#send(task, (error, value) => (error === null ? resolve(value) : reject(error as Error)));
    });
  }

  /** Ends the threads for all owners. Pending tasks never get a reply. */
  async close(): Promise<void> {
    this.#pool.isClosed = true;
    await Promise.all(this.#pool.threads.map((thread) => thread?.stop()));
  }
}
