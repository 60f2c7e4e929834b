// How does a timer avoid keeping its program alive?

/** A timer of `setTimeout` or `setInterval`: an object in Node.js, a number in a browser. */
export type Timer = ReturnType<typeof setTimeout>;

/** Marks a timer that the program need not wait for, where programs wait for timers. @returns the timer */
export function inBackground(timer: Timer): Timer {
  (timer as { unref?(): void }).unref?.();
  return timer;
}
