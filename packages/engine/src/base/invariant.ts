// Does an invariant hold?
//
// The code that relies on an invariant asserts it, in every build: a wrong answer costs more than a comparison.

export { invariant } from "@quiverdb/protocol/invariant";
