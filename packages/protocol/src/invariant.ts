// Does an invariant hold?
//
// The code that relies on an invariant asserts it, in every build: a wrong answer costs more than a comparison. What comes from outside
// (a request, a file) is no invariant: it is checked, and refused with an error of the table in errors.ts.

/**
 * Throws when a condition that the code relies on does not hold. A failure is a bug, never bad input.
 * @param message what is wrong, with the values; as a function where the code runs often, so that it is put together only on failure
 */
export function invariant(condition: boolean, message: string | (() => string)): asserts condition {
  if (!condition) throw new Error(`Invariant broken: ${typeof message === "string" ? message : message()}`);
}
