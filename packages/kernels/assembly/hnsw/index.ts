// Which functions does the module of the HNSW graph export?
//
// A module apart from the row kernels', for it wants relaxed SIMD. Like it, it has no data, stack or heap of its own;
// everything lies in the imported memory, as layout.ts says, so any thread can search by instantiating it.

export { hnswInsert, hnswReconnect } from "./insert";
export { keysOf, queryOfNode } from "./keys";
export { enter as hnswEnter, leave as hnswLeave } from "./layout";
export { hnswRepair } from "./repair";
export { hnswSearch } from "./search";
export { merge as hnswMerge } from "./search-layer";
