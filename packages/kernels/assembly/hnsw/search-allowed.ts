// Which of the allowed nodes are nearest to the query code in a searcher's scratch memory?
//
// A beam of allowed nodes alone, as in ACORN-1 (Patel et al., arXiv:2403.04871): the neighbours of a node are its allowed links, and, as
// long as these are fewer than a list has, the allowed links of its other links. So codes of nodes that are not allowed are never read, and
// the graph of all nodes serves every set of them.
//
// Differences: a list is extended only until three quarters of a full one are allowed, rather than always read to two hops, because with
// half of the nodes allowed one further list is enough, and half of a list loses recall (docs/decisions/filters.md). And the search begins
// not only at the node that the upper levels lead to, but also at a sample of the allowed nodes, for these may be far from the query, and then nothing allowed is near that node.
//
//   allowed   a bit for each slot, in scratch memory
//   seeds     allowed nodes, spread over all of them

import { keysOf } from "./keys";
import {
  CODE_BYTES,
  listAt,
  M0,
  NODES_AT,
  S_ALLOWED,
  S_BATCH,
  S_BEAM,
  S_EPOCH,
  S_FOUND,
  S_KEPT,
  S_KEYS,
  S_QUERY,
  S_SEEDS,
  S_SHRINK,
  S_SINK,
  S_TAGS,
  SLOT_BYTES,
} from "./layout";
import { descend, entryOf, merge, nodeOf } from "./search-layer";

/** Lists that are touched at a time. */
const TOUCHED_MAX: u32 = 8;

/**
 * Searches with a beam of `ef` allowed nodes, leaves the sorted beam in the scratch memory, and returns its length. The node that the upper
 * levels lead to can be in it, too, and so can removed nodes. The caller must have entered the scratch memory.
 * @param seeds how many there are
 */
export function hnswSearchAllowed(scratch: usize, ef: u32, seeds: u32): u32 {
  if (!descend(scratch)) return 0;
  offerSeeds(scratch, ef, seeds);
  searchAllowed(scratch, ef);
  return load<u32>(scratch, S_FOUND);
}

function offerSeeds(scratch: usize, ef: u32, count: u32): void {
  const ids = <usize>load<u32>(scratch, S_BATCH);
  const idsEnd = ids + ((<usize>load<u32>(M0)) << 2);
  const tags = <usize>load<u32>(scratch, S_TAGS);
  const epoch = load<u32>(scratch, S_EPOCH);
  const seeds = <usize>load<u32>(scratch, S_SEEDS);
  const seedsEnd = seeds + ((<usize>count) << 2);
  let next = ids;
  for (let seed = seeds; seed < seedsEnd; seed += 4) {
    const node = load<u32>(seed);
    const tag = tags + node;
    store<u32>(next, node);
    next += (<usize>(<u32>load<u8>(tag) !== epoch)) << 2;
    store<u8>(tag, <u8>epoch);
    if (next < idsEnd) continue;
    offer(scratch, ef, next);
    next = ids;
  }
  if (next > ids) offer(scratch, ef, next);
}

/** Extends the beam, which has at least one node, to the `ef` nearest allowed nodes found. */
function searchAllowed(scratch: usize, ef: u32): void {
  const beam = <usize>load<u32>(scratch, S_BEAM);
  const ids = <usize>load<u32>(scratch, S_BATCH);
  const tags = <usize>load<u32>(scratch, S_TAGS);
  const bits = <usize>load<u32>(scratch, S_ALLOWED);
  const passed = <usize>load<u32>(scratch, S_KEPT);
  const epoch = load<u32>(scratch, S_EPOCH);
  const most = (load<u32>(M0) * 3) >> 2;
  const idsEnd = ids + ((<usize>load<u32>(M0)) << 2);
  let cursor: u32 = 0;
  while (cursor < load<u32>(scratch, S_FOUND)) {
    const at = beam + ((<usize>cursor) << 3);
    const entry = load<u64>(at);
    if ((entry & 1) !== 0) {
      cursor++;
      continue;
    }
    store<u64>(at, entry | 1);
    const list = listAt(nodeOf(entry), 0);
    const listEnd = list + ((<usize>atomic.load<u32>(list)) << 2);
    let next = ids;
    let passedEnd = passed;
    let met: u32 = 0;
    for (let link = list; link < listEnd; link += 4) {
      const node = load<u32>(link, 4);
      const tag = tags + node;
      const isNew = <u32>(<u32>load<u8>(tag) !== epoch);
      const isAllowed = (<u32>load<u8>(bits + (node >> 3)) >> (node & 7)) & 1;
      met += isAllowed;
      store<u32>(next, node);
      next += (<usize>(isNew & isAllowed)) << 2;
      store<u32>(passedEnd, node);
      passedEnd += (<usize>(isNew & (isAllowed ^ 1))) << 2;
      store<u8>(tag, <u8>epoch);
    }
    const each = max<u32>(1, met);
    let touched = passed;
    for (let from = passed; from < passedEnd && met < most; from += 4) {
      if (from >= touched) touched = touchLists(scratch, from, passedEnd, (most - met + each - 1) / each);
      const further = listAt(load<u32>(from), 0);
      const furtherEnd = further + ((<usize>atomic.load<u32>(further)) << 2);
      for (let link = further; link < furtherEnd && next < idsEnd; link += 4) {
        const node = load<u32>(link, 4);
        const tag = tags + node;
        const before = load<u8>(tag);
        const isAllowed = (<u32>load<u8>(bits + (node >> 3)) >> (node & 7)) & 1;
        met += isAllowed;
        store<u32>(next, node);
        next += (<usize>(<u32>(<u32>before !== epoch) & isAllowed)) << 2;
        // A node that is not allowed may still be a way, as a link of a node of the beam.
        store<u8>(tag, isAllowed ? <u8>epoch : before);
      }
    }
    if (next > ids) cursor = min(cursor, offer(scratch, ef, next));
  }
}

/** Touches the cache lines of the lists of some nodes, all before the first is read; returns where these nodes end. */
function touchLists(scratch: usize, from: usize, end: usize, count: u32): usize {
  const touchedEnd = min(end, from + ((<usize>min(count, TOUCHED_MAX)) << 2));
  const listBytes = (<usize>load<u32>(M0)) << 2;
  let sink: u32 = 0;
  for (let at = from; at < touchedEnd; at += 4) {
    const list = listAt(load<u32>(at), 0);
    for (let i: usize = 0; i <= listBytes; i += 64) sink += load<u32>(list + i);
  }
  store<u32>(scratch, sink, S_SINK);
  return touchedEnd;
}

/** Merges those of the nodes in the batch that are near enough; returns the place of the nearest of them, or a greater one. */
function offer(scratch: usize, ef: u32, idsEnd: usize): u32 {
  const beam = <usize>load<u32>(scratch, S_BEAM);
  const ids = <usize>load<u32>(scratch, S_BATCH);
  const keys = <usize>load<u32>(scratch, S_KEYS);
  const near = <usize>load<u32>(scratch, S_SHRINK);
  const touchBytes = <usize>load<u32>(CODE_BYTES);
  const nodesAt = <usize>load<u32>(NODES_AT);
  const slotBytes = <usize>load<u32>(SLOT_BYTES);
  const found = load<u32>(scratch, S_FOUND);
  const worst = found < ef ? u64.MAX_VALUE : load<u64>(beam + ((<usize>found - 1) << 3));
  const count = <u32>((idsEnd - ids) >> 2);
  // As in searchLayer: the cache lines of all codes are touched before the first key is computed.
  let sink: u32 = 0;
  for (let id = ids; id < idsEnd; id += 4) {
    const code = nodesAt + <usize>load<u32>(id) * slotBytes;
    for (let i: usize = 0; i < touchBytes; i += 64) sink += load<u32>(code + i);
  }
  store<u32>(scratch, sink, S_SINK);
  const last = load<u32>(idsEnd - 4);
  store<u32>(idsEnd, last);
  store<u32>(idsEnd, last, 4);
  store<u32>(idsEnd, last, 8);
  keysOf(load<u32>(scratch, S_QUERY), ids, count, keys);
  let nearEnd = near;
  for (let i: usize = 0; i < (<usize>count) << 2; i += 4) {
    const candidate = entryOf(load<f32>(keys + i), load<u32>(ids + i));
    store<u64>(nearEnd, candidate);
    nearEnd += (<usize>(candidate < worst)) << 3;
  }
  if (nearEnd === near) return u32.MAX_VALUE;
  const nearCount = <u32>((nearEnd - near) >> 3);
  store<u32>(scratch, min(ef, found + nearCount), S_FOUND);
  return merge(beam, found, ef, near, nearCount);
}
