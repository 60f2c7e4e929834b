// Does an invariant hold?
//
// The code that relies on an invariant asserts it, in every build: a wrong answer costs more than a comparison.

/** Throws when a condition that the code relies on does not hold. A failure is a bug, never bad input. */
export function invariant(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`Invariant broken: ${message}`);
}
