// Which functions does the module of the HNSW graph export?
//
// Separate from the module of the row kernels, because it uses relaxed SIMD. Like that module, it has no data, stack or heap; everything is
// in the imported memory (layout.ts), so any thread can search by instantiating it.

export { hnswInsert, hnswReconnect } from "./insert";
export { keysOf, queryOfNode } from "./keys";
export { enter as hnswEnter, leave as hnswLeave } from "./layout";
export { hnswRepair } from "./repair";
export { hnswSearch, hnswSearchWithin } from "./search";
export { hnswSearchAllowed } from "./search-allowed";
export { merge as hnswMerge } from "./search-layer";
