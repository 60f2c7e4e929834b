// How is a node inserted into the graph?
//
// Algorithm 1 of Malkov and Yashunin with the neighbour selection of Algorithm 4: of the candidates, nearest first, one is kept when it is
// nearer to the node than to every one kept before. The whole beam, not its best alone, enters the level below (as the paper says; hnswlib
// takes the best), and pruned candidates are not kept. The search traverses removed nodes like others, but they get no new links, so the
// number of links to them only decreases. Links of the backbone (layout.ts) have priority over all others.
//
// Selection compares distances from the candidate, to the owner of the list and to the nodes kept before, by one query code and
// one kernel call: the distance that the search found is rounded in another way, and where many vectors are nearly equal, that
// decided by chance (of 1,033 texts, 20 of them 40 times more, recall was 0.74 in place of 1). Two rules make it whole:
//
//   - equal distances keep a candidate (grids, one-hot vectors: all are equally far, and all are wanted);
//   - a candidate whose code equals one that was kept is left out: it says nothing new, and the kept one leads to it. Copies of
//     one code would fill each other's lists, and no link would lead out.

import { biasOfNode, compareDistances, keysOf, queryOfNode } from "./keys";
import {
  CODE_BYTES,
  childrenMax,
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
  NODES_AT,
  NONE,
  PARENT,
  parentAt,
  ROOT,
  S_BEAM,
  S_CANDIDATE,
  S_FOUND,
  S_KEPT,
  S_KEYS,
  S_OWNER,
  S_QUERY,
  S_SHRINK,
  SLOT_BYTES,
  unlock,
  unlockNode,
} from "./layout";
import { hnswSearch } from "./search";
import { beginBeam, entryOf, insert, nodeOf, restartBeam, searchLayer } from "./search-layer";

/** Distances that differ by less than this share are equal. */
const EQUAL: f32 = 1 / 1024;
/** The smallest normal number: a distance of zero is below it. */
const LEAST: f32 = 1.1754944e-38;
/** A node at less than this share of its distance to the centre has the same code. */
const SAME: f32 = 1 / 1_048_576;

/** Parents that are followed to see whether a node is below another. */
const CHAIN_MAX = 10_000;

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
  const top = levelOf(entry);
  const beam = <usize>load<u32>(scratch, S_BEAM);
  const ef = load<u32>(EF_CONSTRUCTION);
  const m = load<u32>(M);
  beginBeam(scratch, entry);
  for (let l = top; l > level; l--) {
    searchLayer(scratch, l, 1, 1, 0);
    restartBeam(scratch, 1);
  }
  const highest = <i32>min(level, top);
  for (let l = highest; l >= 0; l--) {
    searchLayer(scratch, l, ef, ef, 0);
    // A list of level 0 may be the shorter one.
    const limit = l === 0 ? min(m, load<u32>(M0)) : m;
    const kept = select(scratch, node, beam, load<u32>(scratch, S_FOUND), limit);
    const list = listAt(node, l);
    memory.copy(list + 4, keptIds(scratch), (<usize>kept) << 2);
    atomic.store<u32>(list, kept);
    restartBeam(scratch, ef);
  }
  // All lists of the node are filled; from here on others lead to it. Its own list can grow and change meanwhile.
  const own = <usize>load<u32>(scratch, S_SHRINK);
  findParent(scratch, node, own);
  const links = beam;
  for (let l = 0; l <= highest; l++) {
    lockNode(node);
    const list = listAt(node, l);
    const count = load<u32>(list);
    memory.copy(links, list + 4, (<usize>count) << 2);
    unlockNode(node);
    for (let i: usize = 0; i < count; i++) connect(scratch, load<u32>(links + (i << 2)), node, l, own);
  }
  if (level > top && enterAt(node, level)) {
    const root = load<u32>(ROOT);
    if (root !== node) connect(scratch, node, root, 0, own);
  }
}

/** Makes the node the entry point and the root of an empty graph; another builder may do it first. */
function isFirst(node: u32): boolean {
  lock(ENTRY_LOCK);
  const first = load<u32>(ENTRY) === NONE;
  if (first) {
    store<u32>(parentAt(node), node);
    atomic.store<u32>(ROOT, node);
    atomic.store<u32>(ENTRY, node);
  }
  unlock(ENTRY_LOCK);
  return first;
}

/** Makes the node the entry point unless there is one as high by now; returns whether it did. */
function enterAt(node: u32, level: u32): boolean {
  lock(ENTRY_LOCK);
  const isHigher = level > levelOf(load<u32>(ENTRY));
  if (isHigher) atomic.store<u32>(ENTRY, node);
  unlock(ENTRY_LOCK);
  return isHigher;
}

/** Assigns a parent to a new node: the first of the beam with room for a child, live ones first. */
function findParent(scratch: usize, node: u32, candidates: usize): void {
  const beam = <usize>load<u32>(scratch, S_BEAM);
  const found = load<u32>(scratch, S_FOUND);
  for (let living = 1; living >= 0; living--) {
    for (let i: u32 = 0; i < found; i++) {
      const host = nodeOf(load<u64>(beam + ((<usize>i) << 3)));
      if (isDead(host) === (living !== 0)) continue;
      if (adopt(scratch, node, host, candidates)) return;
    }
  }
  // All of them have the maximum number of children; some node among their descendants has room.
  let host = load<u32>(ROOT);
  for (let i: u32 = 0; i < found; i++) {
    const near = nodeOf(load<u64>(beam + ((<usize>i) << 3)));
    if (atomic.load<u32>(parentAt(near)) === NONE) continue;
    host = near;
    break;
  }
  while (!adopt(scratch, node, host, candidates)) host = childOf(host, node);
}

/** Makes `host` the parent of a node that has none, unless it has children enough or is being unlinked. */
export function adopt(scratch: usize, node: u32, host: u32, candidates: usize): boolean {
  lockNode(host);
  const has = atomic.load<u32>(parentAt(host)) !== NONE && childrenOf(host) < childrenMax();
  if (has) {
    atomic.store<u32>(parentAt(node), host);
    connectLocked(scratch, host, node, 0, candidates);
  }
  unlockNode(host);
  return has;
}

/**
 * Searches for a node by its own code with a beam of `ef`; if it is not found, it becomes a child of the nearest found node. Membership in
 * the backbone is not enough: a search for a lonely vector ends at later nodes that are slightly nearer than its parent. No other
 * reconnection may run at the same time.
 */
export function hnswReconnect(scratch: usize, node: u32, ef: u32): void {
  enter(scratch);
  queryOfNode(node, load<u32>(scratch, S_QUERY));
  const found = hnswSearch(scratch, ef);
  const beam = <usize>load<u32>(scratch, S_BEAM);
  let isFound = false;
  for (let i: u32 = 0; i < found && !isFound; i++)
    isFound = nodeOf(load<u64>(beam + ((<usize>i) << 3))) === node;
  for (let i: u32 = 0; i < found && !isFound; i++) {
    const host = nodeOf(load<u64>(beam + ((<usize>i) << 3)));
    if (isDead(host) || isBelow(host, node)) continue;
    isFound = adopt(scratch, node, host, load<u32>(scratch, S_SHRINK));
  }
  leave(scratch);
}

/** Whether the parents of `below` lead to `node`. Of a chain that is very long it is taken to be so. */
function isBelow(below: u32, node: u32): boolean {
  for (let at = below, steps = 0; steps < CHAIN_MAX; steps++) {
    if (at === node) return true;
    const parent = atomic.load<u32>(parentAt(at));
    if (parent === at || parent === NONE) return false;
    at = parent;
  }
  return true;
}

function childrenOf(host: u32): u32 {
  const list = listAt(host, 0);
  const end = list + ((<usize>load<u32>(list)) << 2);
  const parents = <usize>load<u32>(NODES_AT) + <usize>load<u32>(CODE_BYTES) + PARENT;
  const slotBytes = <usize>load<u32>(SLOT_BYTES);
  let count: u32 = 0;
  for (let at = list; at < end; at += 4) {
    const link = load<u32>(at, 4);
    count += <u32>(link !== host && atomic.load<u32>(parents + <usize>link * slotBytes) === host);
  }
  return count;
}

/** A pseudo-random child of a node that has children. */
function childOf(host: u32, random: u32): u32 {
  lockNode(host);
  const list = listAt(host, 0);
  const count = load<u32>(list);
  let child = host;
  for (let i: u32 = 0; i < count; i++) {
    const link = load<u32>(list + 4 + ((<usize>((i + random) % count)) << 2));
    if (link === host || atomic.load<u32>(parentAt(link)) !== host) continue;
    child = link;
    break;
  }
  unlockNode(host);
  return child;
}

/** The ids that `select` kept. */
export function keptIds(scratch: usize): usize {
  return <usize>load<u32>(scratch, S_KEPT) + 4;
}

/**
 * Chooses up to `limit` of `count` sorted candidates as links of `owner`, beside the `length` ids that `keptIds` begins with.
 * Keys may be products or distances, but links are chosen by distance, see docs/decisions/hnsw-graph.md. Writes the ids to
 * `keptIds`, and returns how many there are then.
 */
export function select(
  scratch: usize,
  owner: u32,
  candidates: usize,
  count: u32,
  limit: u32,
  length: u32 = 0,
): u32 {
  // The owner precedes the kept ids, so that its key is computed together with theirs.
  const ids = <usize>load<u32>(scratch, S_KEPT);
  const keys = <usize>load<u32>(scratch, S_KEYS);
  const query = <usize>load<u32>(scratch, S_CANDIDATE);
  store<u32>(ids, owner);
  const begin = length;
  for (let i: u32 = 0; i < count && length < limit; i++) {
    const node = nodeOf(load<u64>(candidates + ((<usize>i) << 3)));
    if (isDead(node) || node === owner || isAmong(node, ids, begin)) continue;
    if (length > 0 && !isWanted(node, ids, length, query, keys)) continue;
    store<u32>(ids + 4 + ((<usize>length) << 2), node);
    length++;
  }
  return length;
}

/** Whether a node is among the `count` previously kept ids, of which there are usually none or one. */
function isAmong(node: u32, ids: usize, count: u32): boolean {
  for (let at = ids + 4; at < ids + 4 + ((<usize>count) << 2); at += 4)
    if (load<u32>(at) === node) return true;
  return false;
}

/** Whether a candidate is nearer to the owner, the first of the ids, than to each of the `length` others (at least one). */
function isWanted(node: u32, ids: usize, length: u32, query: usize, keys: usize): boolean {
  queryOfNode(node, query);
  compareDistances(query);
  const end = ids + 4 + ((<usize>length) << 2);
  const last = load<u32>(end - 4);
  store<u32>(end, last);
  store<u32>(end, last, 4);
  store<u32>(end, last, 8);
  const bias = biasOfNode(node);
  keysOf(query, ids, 1, keys);
  const distance = load<f32>(keys) + bias;
  const least = max<f32>(distance - distance * EQUAL, max<f32>(bias * SAME, LEAST));
  const bound = f32x4.splat(least - bias);
  let near = f32x4.lt(v128.load(keys), bound);
  // The owner's own key is not relevant here.
  near = v128.and(near, i32x4(0, -1, -1, -1));
  let at = ids + 16;
  while (!v128.any_true(near)) {
    if (at >= end) return true;
    keysOf(query, at, 1, keys);
    near = f32x4.lt(v128.load(keys), bound);
    at += 16;
  }
  return false;
}

/** Adds a link from `owner` to `node`; if the list is full, its links are selected again. */
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
  // The ids to compare, in the batch buffer after the candidates: the links, the new one, and three as padding.
  const ids = candidates + ((<usize>limit + 1) << 3);
  memory.copy(ids, list + 4, (<usize>count) << 2);
  for (let i: usize = 0; i < 4; i++) store<u32>(ids + ((<usize>count + i) << 2), node);
  const keys = <usize>load<u32>(scratch, S_KEYS);
  keysOf(query, ids, count + 1, keys);
  for (let i: u32 = 0; i <= count; i++) {
    const at = (<usize>i) << 2;
    insert(candidates, i + 1, entryOf(load<f32>(keys + at), load<u32>(ids + at)));
  }
  const length = level === 0 ? keepProtected(scratch, owner, ids, count + 1) : 0;
  const kept = select(scratch, owner, candidates, count + 1, limit, length);
  memory.copy(list + 4, keptIds(scratch), (<usize>kept) << 2);
  atomic.store<u32>(list, kept);
}

/** Starts the kept ids with the backbone links among `count` links; returns their number. */
function keepProtected(scratch: usize, owner: u32, links: usize, count: u32): u32 {
  const kept = keptIds(scratch);
  const parents = <usize>load<u32>(NODES_AT) + <usize>load<u32>(CODE_BYTES) + PARENT;
  const slotBytes = <usize>load<u32>(SLOT_BYTES);
  const root = owner === atomic.load<u32>(ENTRY) ? atomic.load<u32>(ROOT) : NONE;
  let length: u32 = 0;
  for (let i: usize = 0; i < count; i++) {
    const link = load<u32>(links + (i << 2));
    if (atomic.load<u32>(parents + <usize>link * slotBytes) !== owner && link !== root) continue;
    if (link === owner) continue;
    store<u32>(kept + ((<usize>length) << 2), link);
    length++;
  }
  return length;
}
