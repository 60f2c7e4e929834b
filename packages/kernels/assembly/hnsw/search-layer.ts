// Which nodes of one level are nearest to a query?
//
// Algorithm 2 of Malkov and Yashunin (arXiv:1603.09320), with one sorted array, the *beam*, for both of its heaps: the
// ef nearest nodes met, each with a bit that says whether its links were followed. The next candidate is the first
// without the bit; the search ends when there is none. An entry is a u64, so that one comparison orders by key and then
// by node:
//
//   | key, as u32 of the same order: 32 | node: 31 | followed: 1 |
//
// Search waits for memory: the cache lines of all unvisited neighbours are touched before the first key is computed. And it
// waits for mispredicted branches: which neighbours were met, which are near enough, and where they belong is as good as
// random, so all three are computed without branches, and what is near enough is merged into the beam at once.
//
// With a *cutoff*, an entry behind the first `least` ones stays in the beam only if its squared distance is no more than that of the tenth
// times 1 + spread. So a query whose neighbours are much nearer than all else ends soon, and another one gets a beam of up to `ef`. What is
// cut never comes back, because the tenth only gets nearer; and nothing need be asked before an entry is followed, because what is beyond
// the cutoff is not there. At the same recall as a beam of 128, a fifth to a quarter of the comparisons are saved
// (docs/decisions/hnsw-speed.md).

import { keyOffset, keysOf } from "./keys";
import {
  CODE_BYTES,
  ENTRY,
  levelOf,
  listAt,
  NODES_AT,
  NONE,
  S_BANNED,
  S_BATCH,
  S_BEAM,
  S_COMPARED,
  S_EPOCH,
  S_FOUND,
  S_KEYS,
  S_QUERY,
  S_SHRINK,
  S_SINK,
  S_TAGS,
  SLOT_BYTES,
  SLOTS,
} from "./layout";

/** A beam entry that was not followed. */
export function entryOf(key: f32, node: u32): u64 {
  const bits = reinterpret<u32>(key + <f32>0);
  const ordered = bits ^ (<u32>(<i32>bits >> 31) | 0x8000_0000);
  return ((<u64>ordered) << 32) | ((<u64>node) << 1);
}

export function keyOf(entry: u64): f32 {
  const ordered = <u32>(entry >> 32);
  return reinterpret<f32>((ordered & 0x8000_0000) !== 0 ? ordered ^ 0x8000_0000 : ~ordered);
}

export function nodeOf(entry: u64): u32 {
  return <u32>entry >> 1;
}

/** Begins a pass: no node is marked as met, but for one that is to be passed by. */
export function newEpoch(scratch: usize): void {
  let epoch = load<u32>(scratch, S_EPOCH) + 1;
  if (epoch > 255) {
    memory.fill(load<u32>(scratch, S_TAGS), 0, load<u32>(SLOTS));
    epoch = 1;
  }
  store<u32>(scratch, epoch, S_EPOCH);
  const banned = load<u32>(scratch, S_BANNED);
  if (banned !== 0) mark(scratch, banned - 1);
}

export function mark(scratch: usize, node: u32): void {
  store<u8>(<usize>load<u32>(scratch, S_TAGS) + node, <u8>load<u32>(scratch, S_EPOCH));
}

/** Makes the beam one node, which is marked in a new pass. */
export function beginBeam(scratch: usize, node: u32): void {
  const ids = <usize>load<u32>(scratch, S_BATCH);
  for (let i = 0; i < 4; i++) store<u32>(ids + (i << 2), node);
  const keys = <usize>load<u32>(scratch, S_KEYS);
  keysOf(load<u32>(scratch, S_QUERY), ids, 1, keys);
  newEpoch(scratch);
  mark(scratch, node);
  store<u64>(load<u32>(scratch, S_BEAM), entryOf(load<f32>(keys), node));
  store<u32>(scratch, 1, S_FOUND);
}

/** Forgets which nodes of the beam were followed, and that others were met: for the level below. */
export function restartBeam(scratch: usize, length: u32): void {
  newEpoch(scratch);
  const beam = <usize>load<u32>(scratch, S_BEAM);
  const count = min(length, load<u32>(scratch, S_FOUND));
  for (let i: u32 = 0; i < count; i++) {
    const at = beam + ((<usize>i) << 3);
    const entry = load<u64>(at) & ~1;
    store<u64>(at, entry);
    mark(scratch, nodeOf(entry));
  }
  store<u32>(scratch, count, S_FOUND);
}

/** Makes the beam the node of level 0 at which a search begins: where the upper levels lead. False if the graph is empty. */
export function descend(scratch: usize): bool {
  const entry = atomic.load<u32>(ENTRY);
  if (entry === NONE) return false;
  beginBeam(scratch, entry);
  for (let level = levelOf(entry); level > 0; level--) {
    searchLayer(scratch, level, 1, 1, 0);
    restartBeam(scratch, 1);
  }
  return true;
}

/** Neighbours by whose distance a beam is cut. */
const CUT_RANK: u32 = 10;
/** Greater than any node. */
const NODE_END: u32 = 0x7fff_ffff;

/**
 * Extends the beam, which has at least one node, to the `ef` nearest nodes found.
 * @param least entries that are not cut, CUT_RANK at least; `ef`: there is no cutoff
 * @param spread how much farther, by the squared distance, the others may be than the tenth
 */
export function searchLayer(scratch: usize, level: u32, ef: u32, least: u32, spread: f32): void {
  const beam = <usize>load<u32>(scratch, S_BEAM);
  const ids = <usize>load<u32>(scratch, S_BATCH);
  const keys = <usize>load<u32>(scratch, S_KEYS);
  const tags = <usize>load<u32>(scratch, S_TAGS);
  const near = <usize>load<u32>(scratch, S_SHRINK);
  const query = <usize>load<u32>(scratch, S_QUERY);
  const epoch = load<u32>(scratch, S_EPOCH);
  const touchBytes = <usize>load<u32>(CODE_BYTES);
  const nodesAt = <usize>load<u32>(NODES_AT);
  const slotBytes = <usize>load<u32>(SLOT_BYTES);
  let found = load<u32>(scratch, S_FOUND);
  let worst = found < ef ? u64.MAX_VALUE : load<u64>(beam + ((<usize>found - 1) << 3));
  const offset = keyOffset(query);
  let cursor: u32 = 0;
  let sink: u32 = 0;
  let compared: u32 = 0;
  while (cursor < found) {
    const at = beam + ((<usize>cursor) << 3);
    const entry = load<u64>(at);
    if ((entry & 1) !== 0) {
      cursor++;
      continue;
    }
    store<u64>(at, entry | 1);
    const list = listAt(nodeOf(entry), level);
    const listEnd = list + ((<usize>atomic.load<u32>(list)) << 2);
    let next = ids;
    for (let link = list; link < listEnd; link += 4) {
      const node = load<u32>(link, 4);
      const tag = tags + node;
      store<u32>(next, node);
      next += (<usize>(<u32>load<u8>(tag) !== epoch)) << 2;
      store<u8>(tag, <u8>epoch);
    }
    const count = <u32>((next - ids) >> 2);
    if (count === 0) continue;
    compared += count;
    for (let id = ids; id < next; id += 4) {
      const code = nodesAt + <usize>load<u32>(id) * slotBytes;
      for (let i: usize = 0; i < touchBytes; i += 64) sink += load<u32>(code + i);
    }
    const last = load<u32>(next - 4);
    store<u32>(next, last);
    store<u32>(next, last, 4);
    store<u32>(next, last, 8);
    keysOf(query, ids, count, keys);
    let nearEnd = near;
    for (let i: usize = 0; i < (<usize>count) << 2; i += 4) {
      const candidate = entryOf(load<f32>(keys + i), load<u32>(ids + i));
      store<u64>(nearEnd, candidate);
      nearEnd += (<usize>(candidate < worst)) << 3;
    }
    if (nearEnd === near) continue;
    const nearCount = <u32>((nearEnd - near) >> 3);
    cursor = min(cursor, merge(beam, found, ef, near, nearCount));
    found = min(ef, found + nearCount);
    if (found < least) continue;
    worst = load<u64>(beam + ((<usize>least - 1) << 3));
    if (least === ef) continue;
    const tenth = keyOf(load<u64>(beam, (CUT_RANK - 1) << 3));
    worst = max(worst, entryOf(tenth + max<f32>(0, tenth + offset) * spread, NODE_END));
    while (load<u64>(beam + ((<usize>found - 1) << 3)) > worst) found--;
    if (found === ef) worst = load<u64>(beam + ((<usize>found - 1) << 3));
  }
  store<u32>(scratch, found, S_FOUND);
  store<u32>(scratch, compared, S_COMPARED);
  store<u32>(scratch, sink, S_SINK);
}

/**
 * Merges `count` entries (at least one) into the sorted beam and keeps the `ef` smallest; returns the position of the smallest new one.
 * Every entry of the beam is moved at most once, however many are merged.
 */
export function merge(beam: usize, found: u32, ef: u32, entries: usize, count: u32): u32 {
  const entriesEnd = entries + ((<usize>count) << 3);
  for (let from = entries + 8; from < entriesEnd; from += 8) {
    const entry = load<u64>(from);
    let at = from;
    for (; at > entries && load<u64>(at - 8) > entry; at -= 8) store<u64>(at, load<u64>(at - 8));
    store<u64>(at, entry);
  }
  // From the greatest to the smallest. Entries between two insertion points move up by the number of entries that are still to be inserted.
  const limit = beam + ((<usize>ef) << 3);
  let end = beam + ((<usize>found) << 3);
  for (let left = entriesEnd - entries; left > 0; left -= 8) {
    const entry = load<u64>(entries + left - 8);
    const low = placeIn(beam, <u32>((end - beam) >> 3), entry);
    let to = min(end + left, limit);
    for (; to >= low + left + 16; to -= 16) v128.store(to - 16, v128.load(to - left - 16));
    if (to > low + left) store<u64>(to - 8, load<u64>(to - left - 8));
    const place = low + left - 8;
    if (place < limit) store<u64>(place, entry);
    end = low;
  }
  return <u32>((end - beam) >> 3);
}

/** Where an entry belongs among `length` sorted ones: a binary search without branches, which no processor can foresee. */
function placeIn(beam: usize, length: u32, entry: u64): usize {
  let low = beam;
  for (let left = <usize>length; left > 0; ) {
    const half = (left + 1) >> 1;
    low += <usize>(load<u64>(low + (half << 3) - 8) < entry) * (half << 3);
    left -= half;
  }
  return low;
}

/** Puts an entry into a sorted array whose last of `length` places is free or to be lost. */
export function insert(beam: usize, length: u32, entry: u64): void {
  const end = placeIn(beam, length - 1, entry);
  let to = beam + ((<usize>length - 1) << 3);
  while (to >= end + 16) {
    v128.store(to - 8, v128.load(to - 16));
    to -= 16;
  }
  if (to > end) store<u64>(to, load<u64>(to - 8));
  store<u64>(end, entry);
}
