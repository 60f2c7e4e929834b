// Which functions does the WebAssembly module export?
//
// The module has no data, no stack and no heap of its own: it works in an imported shared memory that the
// caller lays out. Every pointer is a byte offset into that memory. The debug build asserts the preconditions
// that each kernel states, and traps where one is broken; the release build trusts the caller.

export { dotRows } from "./dot-rows";
export { exactSums } from "./exact-sums";
export { l2Rows } from "./l2-rows";
export { rotate } from "./rotate";
