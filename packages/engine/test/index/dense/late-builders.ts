// How does a test control when a graph is built?

import {
  type Builders,
  InPlaceBuilders,
  type Outcome,
  type SiteOf,
  type Task,
} from "../../../src/index/builders.ts";
import { graphJobs } from "../../../src/index/dense/tasks.ts";

/** Builders that do a job on a graph at each call of `work`, and everything else at once. */
export class LateBuilders extends InPlaceBuilders {
  readonly #jobs: (() => void)[] = [];

  override run<Request, Answer, Site>(
    task: Task<Request, Answer, Site>,
    request: Request,
    done: Outcome<Answer>,
    site?: SiteOf<Site>,
  ): void {
    const act = () => super.run(task, request, done, site);
    if (task.name === graphJobs.name) this.#jobs.push(act);
    else act();
  }

  /** Does the next job. @returns whether there was one */
  work(): boolean {
    const job = this.#jobs.shift();
    job?.();
    return job !== undefined;
  }
}

/** Builders that answer later, as those in threads do: the index is told of more work (`onMore`) instead of doing all of it at once. */
export class AnsweringBuilders implements Builders {
  readonly width = 1;
  readonly isInPlace = false;
  readonly #builders = new InPlaceBuilders();
  readonly #tasks: (() => void)[] = [];

  run<Request, Answer, Site>(
    task: Task<Request, Answer, Site>,
    request: Request,
    done: Outcome<Answer>,
    site?: SiteOf<Site>,
  ): void {
    this.#tasks.push(() => this.#builders.run(task, request, done, site as SiteOf<Site>));
  }

  forget(id: number): void {
    this.#builders.forget(id);
  }

  /** Does the next task. @returns whether there was one */
  work(): boolean {
    const task = this.#tasks.shift();
    task?.();
    return task !== undefined;
  }
}
