// What the program sees of the kernels for postings: these functions are one module, bound to one memory.

export { scoreRecords } from "./exact";
export { gatherSegment } from "./gather";
export { searchSegment } from "./search";
