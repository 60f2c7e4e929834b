// Which nodes are nearest to the query code in a searcher's scratch memory?

import { S_FOUND } from "./layout";
import { descend, searchLayer } from "./search-layer";

/**
 * Searches with a beam of `ef`, leaves the sorted beam in the scratch memory, and returns its length. The beam also has removed nodes. The
 * caller must have entered the scratch memory (`hnswEnter`), and leaves it after reading the ordinals of the results.
 */
export function hnswSearch(scratch: usize, ef: u32): u32 {
  return hnswSearchWithin(scratch, ef, ef, 0);
}

/** The same with a cutoff by distance, see searchLayer. */
export function hnswSearchWithin(scratch: usize, ef: u32, least: u32, spread: f32): u32 {
  if (!descend(scratch)) return 0;
  searchLayer(scratch, 0, ef, least, spread);
  return load<u32>(scratch, S_FOUND);
}
