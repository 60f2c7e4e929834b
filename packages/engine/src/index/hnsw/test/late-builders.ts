// How does a test control when a graph is built?

import { type GraphJob, InPlaceBuilders, type Target } from "../jobs.ts";

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
