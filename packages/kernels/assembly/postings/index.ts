// Which functions does the module of the postings kernels export? They are bound to one memory.

export { copyPostings } from "./copy";
export { scoreRecords } from "./exact";
export { gatherSegment } from "./gather";
export { searchSegment } from "./search";
export { writeList } from "./write";
