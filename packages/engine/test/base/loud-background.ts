// How does a test notice that work in the background has failed?

import { Background } from "../../src/base/background.ts";

/** A Background that fails the running test as soon as a task fails. */
export const loudBackground = (): Background =>
  new Background({
    onFailed: ({ task, error }) =>
      queueMicrotask(() => {
        throw new Error(`${task} failed`, { cause: error });
      }),
    onRecovered: () => {},
  });
