// How does a node come into the graph?
//
// Algorithm 1 of Malkov and Yashunin with the neighbour selection of Algorithm 4: of the candidates, nearest first, one
// is kept when it is nearer to the node than to every one kept before. The whole beam, not its best alone, enters the level
// below (as the paper says; hnswlib takes the best), and pruned candidates are not kept. Removed nodes lead the search
// like others but get no link, so links to them only become fewer.

import { biasOfNode, compareDistances, keysOf, queryOfNode } from "./keys";
import {
  BUILD_MODE,
  EF_CONSTRUCTION,
  ENTRY,
  ENTRY_LOCK,
  enter,
  isDead,
  leave,
  levelOf,
  listAt,
  lock,
  lockNode,
  M,
  M0,
  NONE,
  S_BEAM,
  S_CANDIDATE,
  S_FOUND,
  S_KEPT,
  S_KEYS,
  S_OWNER,
  S_QUERY,
  S_SHRINK,
  unlock,
  unlockNode,
} from "./layout";
import { beginBeam, entryOf, insert, keyOf, nodeOf, restartBeam, searchLayer } from "./search-layer";

/** Links the node, whose code is written and whose lists are empty, into the graph. */
export function hnswInsert(scratch: usize, node: u32, level: u32): void {
  enter(scratch);
  insertNode(scratch, node, level);
  leave(scratch);
}

function insertNode(scratch: usize, node: u32, level: u32): void {
  if (atomic.load<u32>(ENTRY) === NONE && isFirst(node)) return;
  const entry = atomic.load<u32>(ENTRY);
  const query = <usize>load<u32>(scratch, S_QUERY);
  queryOfNode(node, query);
  const constant = biasOfNode(node);
  const top = levelOf(entry);
  const beam = <usize>load<u32>(scratch, S_BEAM);
  const ef = load<u32>(EF_CONSTRUCTION);
  const m = load<u32>(M);
  beginBeam(scratch, entry);
  for (let l = top; l > level; l--) {
    searchLayer(scratch, l, 1);
    restartBeam(scratch, 1);
  }
  const highest = <i32>min(level, top);
  for (let l = highest; l >= 0; l--) {
    searchLayer(scratch, l, ef);
    // A list of level 0 may be the shorter one.
    const limit = l === 0 ? min(m, load<u32>(M0)) : m;
    const kept = select(scratch, beam, load<u32>(scratch, S_FOUND), constant, limit);
    const list = listAt(node, l);
    memory.copy(list + 4, load<u32>(scratch, S_KEPT), (<usize>kept) << 2);
    atomic.store<u32>(list, kept);
    restartBeam(scratch, ef);
  }
  // All lists of the node are filled; from here on others lead to it. Its own list can grow and change meanwhile.
  const own = <usize>load<u32>(scratch, S_SHRINK);
  const links = <usize>load<u32>(scratch, S_BEAM);
  for (let l = 0; l <= highest; l++) {
    lockNode(node);
    const list = listAt(node, l);
    const count = load<u32>(list);
    memory.copy(links, list + 4, (<usize>count) << 2);
    unlockNode(node);
    for (let i: usize = 0; i < count; i++) connect(scratch, load<u32>(links + (i << 2)), node, l, own);
  }
  if (level > top) enterAt(node, level);
}

/** Makes the node the entry point of an empty graph; another builder may be quicker. */
function isFirst(node: u32): boolean {
  lock(ENTRY_LOCK);
  const first = load<u32>(ENTRY) === NONE;
  if (first) atomic.store<u32>(ENTRY, node);
  unlock(ENTRY_LOCK);
  return first;
}

/** Makes the node the entry point unless there is one as high by now. */
function enterAt(node: u32, level: u32): void {
  lock(ENTRY_LOCK);
  if (level > levelOf(load<u32>(ENTRY))) atomic.store<u32>(ENTRY, node);
  unlock(ENTRY_LOCK);
}

/**
 * Chooses up to `limit` of `count` sorted candidates, beside the `length` ids that the area's kept ids begin with; `constant` is
 * the bias of the node whose links they may be. Keys are products or distances, but links are chosen by distance, see
 * docs/decisions/hnsw-dot-product.md. Writes the ids to the area's kept ids, and returns how many there are then.
 */
export function select(
  scratch: usize,
  candidates: usize,
  count: u32,
  constant: f32,
  limit: u32,
  length: u32 = 0,
): u32 {
  const mode = load<u32>(BUILD_MODE);
  const kept = <usize>load<u32>(scratch, S_KEPT);
  const keys = <usize>load<u32>(scratch, S_KEYS);
  const query = <usize>load<u32>(scratch, S_CANDIDATE);
  for (let i: u32 = 0; i < count && length < limit; i++) {
    const entry = load<u64>(candidates + ((<usize>i) << 3));
    const node = nodeOf(entry);
    if (isDead(node)) continue;
    if (length > 0) {
      queryOfNode(node, query);
      compareDistances(query);
      // With products as keys the candidate's own bias is not in its key, and need not be taken out.
      const threshold = keyOf(entry) + constant - (mode === 0 ? 0 : biasOfNode(node));
      const last = load<u32>(kept + ((<usize>length - 1) << 2));
      const end = kept + ((<usize>length) << 2);
      store<u32>(end, last);
      store<u32>(end, last, 4);
      store<u32>(end, last, 8);
      let isNear = true;
      for (let at: usize = 0; at < (<usize>length) << 2; at += 16) {
        keysOf(query, kept + at, 1, keys);
        if (v128.any_true(f32x4.lt(v128.load(keys), f32x4.splat(threshold)))) {
          isNear = false;
          break;
        }
      }
      if (!isNear) continue;
    }
    store<u32>(kept + ((<usize>length) << 2), node);
    length++;
  }
  return length;
}

/** Adds a link from `owner` to `node`; where the list is full, its links are chosen anew. */
function connect(scratch: usize, owner: u32, node: u32, level: u32, candidates: usize): void {
  lockNode(owner);
  connectLocked(scratch, owner, node, level, candidates);
  unlockNode(owner);
}

function connectLocked(scratch: usize, owner: u32, node: u32, level: u32, candidates: usize): void {
  const list = listAt(owner, level);
  const limit = level === 0 ? load<u32>(M0) : load<u32>(M);
  const count = load<u32>(list);
  const end = list + 4 + ((<usize>count) << 2);
  // Two builders that insert each other's neighbour at once can both make the link.
  for (let at = list + 4; at < end; at += 4) if (load<u32>(at) === node) return;
  if (count < limit) {
    store<u32>(end, node);
    atomic.store<u32>(list, count + 1);
    return;
  }
  const query = <usize>load<u32>(scratch, S_OWNER);
  queryOfNode(owner, query);
  // The ids to weigh, in the batch-sized place behind the candidates: the links, the new one, and three to fill up.
  const ids = candidates + ((<usize>limit + 1) << 3);
  memory.copy(ids, list + 4, (<usize>count) << 2);
  for (let i: usize = 0; i < 4; i++) store<u32>(ids + ((<usize>count + i) << 2), node);
  const keys = <usize>load<u32>(scratch, S_KEYS);
  keysOf(query, ids, count + 1, keys);
  for (let i: u32 = 0; i <= count; i++) {
    const at = (<usize>i) << 2;
    insert(candidates, i + 1, entryOf(load<f32>(keys + at), load<u32>(ids + at)));
  }
  const kept = select(scratch, candidates, count + 1, biasOfNode(owner), limit);
  memory.copy(list + 4, load<u32>(scratch, S_KEPT), (<usize>kept) << 2);
  atomic.store<u32>(list, kept);
}
