// Who does the long work on indexes?
//
// A *task* is a calculation that takes long: a job on a graph, the analysis of texts. *Builders* run tasks, in threads
// (runtime/builders.ts) or in place, in the owner's thread. A task in place is complete when `run` returns, so such an index is synchronous,
// and equal calls produce equal bytes. builder-tasks.ts lists the tasks of all kinds, for the threads.

import { finishAtOnce, type Steps } from "../base/steps.ts";
import type { StoredTextBytes } from "./contract.ts";

/** Reads the text of a stored record; indexes do not know how records are stored. */
export type TextOf = (record: Uint8Array) => StoredTextBytes | null;

/** The builder that runs a task, and how many there are. */
export type BuilderPlace = { readonly number: number; readonly width: number };

/** @typeParam Site what the task works on and a builder keeps between tasks; undefined: nothing */
export type Task<Request, Answer, Site = undefined> = {
  /** Unique among all tasks. */
  readonly name: string;
  /** @param textOf given in threads */
  run(request: Request, site: Site, textOf?: TextOf): Steps<Answer>;
  /** In a thread: its own side of what is described. */
  attach?(description: never, place: BuilderPlace): Site;
  /** Buffers whose ownership passes to the thread with the request, and to the owner with the answer. */
  handedOver?(request: Request): ArrayBuffer[];
  handedBack?(answer: Answer): ArrayBuffer[];
  /** In a thread: frees the memory of a request that was done. */
  release?(request: Request): void;
  /**
   * Whether it leaves memory outside of the heap to the garbage collector, such as a graph that was made for one calculation. The collector
   * of V8 does not see how much that is, and a builder allocates little else.
   */
  readonly leavesWaste?: boolean;
};

/** Any task. */
export type AnyTask = Task<never, unknown, unknown>;

/** What tasks work on, as its owner has it. */
export type SiteOf<Site> = {
  /** Unique in the process; builders use it to recognise what they already know. */
  readonly id: number;
  /** What a thread needs to attach it; to be posted. */
  describe(): object;
  /** The owner's own side, where the owner's thread is the builder. */
  own(): Site;
};

export type Outcome<Answer> = (error: unknown, answer: Answer | null) => void;

export interface Builders {
  /** Number of concurrent tasks, at least 1. */
  readonly width: number;
  /** Whether a task is complete when `run` returns. */
  readonly isInPlace: boolean;
  /** Runs a task; `done` is called once with its outcome. */
  run<Request, Answer>(task: Task<Request, Answer>, request: Request, done: Outcome<Answer>): void;
  run<Request, Answer, Site>(
    task: Task<Request, Answer, Site>,
    request: Request,
    done: Outcome<Answer>,
    site: SiteOf<Site>,
  ): void;
  /** There will be no more tasks on this site. */
  forget(id: number): void;
}

/** Runs a task. */
export const ask = <Request, Answer>(
  builders: Builders,
  task: Task<Request, Answer>,
  request: Request,
): Promise<Answer> =>
  new Promise((resolve, reject) =>
    builders.run(task, request, (error, answer) =>
      error === null ? resolve(answer as Answer) : reject(error as Error),
    ),
  );

/** Builders that work in the owner's thread, and in its scratch memory. */
export class InPlaceBuilders implements Builders {
  readonly width = 1;
  readonly isInPlace = true;
  readonly #sites = new Map<number, unknown>();

  run<Request, Answer, Site>(
    task: Task<Request, Answer, Site>,
    request: Request,
    done: Outcome<Answer>,
    site?: SiteOf<Site>,
  ): void {
    if (site !== undefined && !this.#sites.has(site.id)) this.#sites.set(site.id, site.own());
    let answer: Answer;
    try {
      answer = finishAtOnce(task.run(request, this.#sites.get(site?.id ?? -1) as Site));
    } catch (error) {
      done(error, null);
      return;
    }
    done(null, answer);
  }

  forget(id: number): void {
    this.#sites.delete(id);
  }
}
