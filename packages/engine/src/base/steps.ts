// How is work written that may have to pause?
//
// As a generator that yields wherever others may take their turn. A task does its steps in time slices (scheduler.ts); where there is
// nobody to wait for, as in the writer thread and in tests, they are done at once.

/** Work in steps: others may take their turn at each `yield`. */
export type Steps<T> = Generator<void, T>;

/** Does all steps, one after the other. */
export function finishAtOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}
