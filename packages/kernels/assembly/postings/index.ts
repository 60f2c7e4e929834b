// What the program sees of the kernels for postings: search.ts is one module, bound to one memory.

export { searchRun } from "./search";
