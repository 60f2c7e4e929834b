// How is interruptible work written?
//
// As a generator that yields wherever other work may run. A task runs the steps in time slices (scheduler.ts). Where no other work
// waits, as in the writer thread and in tests, all steps run at once.

/** Work in steps: other work may run at each `yield`. */
export type Steps<T> = Generator<void, T>;

/** Runs all steps at once. */
export function finishAtOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** Items sorted, and items merged, in one step. */
const sortedPerStep = 1_024;
const mergedPerStep = 8_192;

/** Sorts many items, stably, in steps. Returns a new array, or the same one if there are few items. */
export function* sortInSteps<T>(items: T[], compare: (a: T, b: T) => number): Steps<T[]> {
  if (items.length <= sortedPerStep) return items.sort(compare);
  let runs: T[][] = [];
  for (let from = 0; from < items.length; from += sortedPerStep) {
    runs.push(items.slice(from, from + sortedPerStep).sort(compare));
    yield;
  }
  while (runs.length > 1) {
    const merged: T[][] = [];
    for (let i = 0; i < runs.length; i += 2)
      merged.push(i + 1 < runs.length ? yield* merge(runs[i], runs[i + 1], compare) : runs[i]);
    runs = merged;
  }
  return runs[0];
}

function* merge<T>(first: readonly T[], second: readonly T[], compare: (a: T, b: T) => number): Steps<T[]> {
  const merged: T[] = [];
  let [a, b] = [0, 0];
  while (a < first.length || b < second.length) {
    const isFirst = b === second.length || (a < first.length && compare(first[a], second[b]) <= 0);
    if (merged.push(isFirst ? first[a++] : second[b++]) % mergedPerStep === 0) yield;
  }
  yield;
  return merged;
}
