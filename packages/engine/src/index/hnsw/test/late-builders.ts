// How does a test control when a graph is built?

import { type GraphBuilders, type GraphJob, InPlaceBuilders, type Target } from "../jobs.ts";

/** Builders that do a job at each call of `work`. */
export class LateBuilders extends InPlaceBuilders {
  readonly #jobs: (() => void)[] = [];

  override run(target: Target, job: GraphJob, done: (error: unknown) => void): void {
    this.#jobs.push(() => super.run(target, job, done));
  }

  work(): void {
    this.#jobs.shift()?.();
  }
}

/** Builders that answer later, as those in threads do: the index is told of more work (`onMore`) instead of doing all of it at once. */
export class AnsweringBuilders implements GraphBuilders {
  readonly width = 1;
  readonly #builders = new InPlaceBuilders();
  readonly #tasks: (() => void)[] = [];

  readonly run: GraphBuilders["run"] = (...task) => this.#later(() => this.#builders.run(...task));
  readonly calibrate: GraphBuilders["calibrate"] = (...task) =>
    this.#later(() => this.#builders.calibrate(...task));
  readonly truth: GraphBuilders["truth"] = (...task) => this.#later(() => this.#builders.truth(...task));
  readonly forget: GraphBuilders["forget"] = (id) => this.#builders.forget(id);

  #later(task: () => void): void {
    this.#tasks.push(task);
  }

  /** Does the next task. @returns whether there was one */
  work(): boolean {
    const task = this.#tasks.shift();
    task?.();
    return task !== undefined;
  }
}
