// What is the memory layout of an HNSW graph?
//
//   0        header: the numbers below, as u32
//   locks    one u32 for each of `lockCount` stripes of nodes: 1 while a builder changes a list of such a node
//   scratch  one for each thread: a search and an insertion write nowhere else but here and in nodes
//   tags     of each thread, one byte per slot: equal to the thread's epoch where this pass has met the node
//   allowed  of each thread, one bit per slot: of searches that may find some nodes only
//   nodes    slots of `slotBytes`, a multiple of 128; slot 0 is the first node's
//
//   a node       | code | factor f32 | bias f32 | ordinal u32 | upper u32 | parent u32 | count u32 | links of level 0: u32 x m0 | unused |
//   upper slot   | next slot u32 | level u32 | per level: count u32, links u32 x m | ...
//
// A node's number is its slot. A node of level L > 0 has a chain of upper slots that hold `levelsPerSlot` levels each,
// beginning at `upper` (0xffffffff: none).
//
// The backbone: links of level 0 that are never pruned, so that every node can be reached.
//
//   Each node has a *parent*, whose list of level 0 leads to it; parents of parents end at ROOT, which is its own. So the lists
//   hold a tree that spans all nodes, living and removed. The list of the entry point leads to ROOT, so all can be reached from
//   there. A list is chosen anew around those links (`isProtected`). A new node takes the nearest of its candidates that has fewer
//   than `childrenMax` children as its parent. Before removed nodes are unlinked, the owner draws a new tree without them (their
//   parent becomes NONE, and they are no longer protected).
//
// The memory protocol: threads that search, builders that link, and one owner (the thread that makes the graph).
//
//   owner     takes slots, writes ordinals and `upper`, hands nodes to builders, marks removed ones (ordinal = DEAD),
//             and gives slots back.
//   builder   fills the code of a node that it was handed, then all its lists, and only then links other nodes to it,
//             from level 0 upwards: a thread that meets a node finds all its lists filled. It changes the list of a node that
//             can be met only while it holds that node's stripe of `locks`, one stripe at a time, so no two wait for each other.
//   searcher  takes no lock. A list is published by its count, written last with an atomic store, and every u32 below a
//             count that was ever published was a node then: a reader meets old links or new ones, never anything else.
//   reuse     a thread that follows links first writes the memory's EPOCH into its scratch memory (`enter`), and 0 when it is done
//             (`leave`). The owner, when no list leads to some nodes any more, raises EPOCH, and gives their slots to new
//             nodes only when the scratch memory of each thread holds 0 or the new EPOCH: no thread can still be visiting them.
//
// src/hnsw.ts is the same table for TypeScript.

export const CODE_BYTES: usize = 0;
/** The type of codes, see keys.ts. */
export const DATA_TYPE: usize = 4;
export const M: usize = 8;
export const M0: usize = 12;
export const EF_CONSTRUCTION: usize = 16;
export const SLOT_BYTES: usize = 20;
export const LEVELS_PER_SLOT: usize = 24;
export const NODES_AT: usize = 28;
/** Slots in use: all nodes are below. */
export const SLOTS: usize = 32;
/** The entry point; 0xffffffff: the graph is empty. */
export const ENTRY: usize = 36;
/** Bytes of a query code. */
export const QUERY_BYTES: usize = 40;
/** Whether insertion searches for candidates by product (0) or by distance (1). */
export const BUILD_MODE: usize = 44;

/** Raised by the owner when nodes were unlinked; never 0. */
export const EPOCH: usize = 48;
/** 1 while a builder changes the entry point. */
export const ENTRY_LOCK: usize = 52;
export const LOCKS_AT: usize = 56;
/** The node at which the chains of parents end; 0xffffffff: the graph is empty. */
export const ROOT: usize = 60;
/** A power of two. */
export const LOCK_COUNT: u32 = 4096;

/** A searcher's scratch memory starts with these fields, followed by arrays whose offsets are relative to it. */
export const S_EPOCH: usize = 0;
export const S_FOUND: usize = 4;
export const S_SINK: usize = 8;
/** One plus the number of a node that the search ignores; 0: none. */
export const S_BANNED: usize = 12;
/** Nodes that the search of level 0 compared with the query. */
export const S_COMPARED: usize = 16;
export const S_TAGS: usize = 20;
export const S_BEAM: usize = 24;
export const S_BATCH: usize = 28;
export const S_KEYS: usize = 32;
export const S_KEPT: usize = 36;
export const S_SHRINK: usize = 40;
/** Three query codes: of the search or new node, of a node whose links are selected again, of a candidate. */
export const S_QUERY: usize = 44;
export const S_OWNER: usize = 48;
export const S_CANDIDATE: usize = 52;

/** The memory's EPOCH when this pass began; 0: this thread follows no links. */
export const S_ACTIVE: usize = 56;

/** A bit for each slot whose node a search may find, and some of these nodes: of searches among allowed nodes. */
export const S_ALLOWED: usize = 60;
export const S_SEEDS: usize = 64;

export const NONE: u32 = 0xffff_ffff;
/** The ordinal of a removed node. */
export const DEAD: u32 = 0xffff_ffff;

/** Announces that links are followed from here on: no slot that can be met now is reused before `leave`. */
export function enter(scratch: usize): void {
  // An owner that raised the epoch between the load and the store may not have seen the store, so repeat it.
  let epoch: u32;
  do {
    epoch = atomic.load<u32>(EPOCH);
    atomic.store<u32>(scratch + S_ACTIVE, epoch);
  } while (atomic.load<u32>(EPOCH) !== epoch);
}

export function leave(scratch: usize): void {
  atomic.store<u32>(scratch + S_ACTIVE, 0);
}

/** Waits of 100 microseconds after which the holder of a lock must have died: 10 seconds and more. */
const WAITS_MAX = 100_000;

/** Takes the lock of a node's lists, which is held for some microseconds. A thread that waits longer yields to the holder. */
export function lockNode(node: u32): void {
  lock(<usize>load<u32>(LOCKS_AT) + ((<usize>(node & (LOCK_COUNT - 1))) << 2));
}

export function unlockNode(node: u32): void {
  unlock(<usize>load<u32>(LOCKS_AT) + ((<usize>(node & (LOCK_COUNT - 1))) << 2));
}

export function lock(at: usize): void {
  for (let spins = 0; atomic.cmpxchg<u32>(at, 0, 1) !== 0; spins++) {
    // At most 100 microseconds, so that a wake-up just before the wait costs little.
    if (spins > 200) atomic.wait<i32>(at, 1, 100_000);
    if (spins > WAITS_MAX) unreachable();
  }
}

export function unlock(at: usize): void {
  atomic.store<u32>(at, 0);
}

export function nodeAt(node: u32): usize {
  return <usize>load<u32>(NODES_AT) + <usize>node * <usize>load<u32>(SLOT_BYTES);
}

/** Whether the node is removed, and only a way to others. */
export function isDead(node: u32): boolean {
  return load<u32>(nodeAt(node) + load<u32>(CODE_BYTES), 8) === DEAD;
}

/** Offset of a node's parent after its code. */
export const PARENT: usize = 16;

export function parentAt(node: u32): usize {
  return nodeAt(node) + load<u32>(CODE_BYTES) + PARENT;
}

/** Whether the link of level 0 from `owner` to `node` must stay: it is part of the backbone. */
export function isProtected(owner: u32, node: u32): boolean {
  if (atomic.load<u32>(parentAt(node)) === owner) return true;
  return node === atomic.load<u32>(ROOT) && owner === atomic.load<u32>(ENTRY);
}

/** Children that a node takes: half of its links at most, so that the other half goes where searches want it. */
export function childrenMax(): u32 {
  return max<u32>(1, load<u32>(M0) >> 1);
}

export function levelOf(node: u32): u32 {
  const upper = load<u32>(nodeAt(node) + load<u32>(CODE_BYTES), 12);
  return upper === NONE ? 0 : load<u32>(nodeAt(upper), 4);
}

/** Address of the count of a node's link list at this level; the links follow it. */
export function listAt(node: u32, level: u32): usize {
  const at = nodeAt(node) + load<u32>(CODE_BYTES);
  if (level === 0) return at + 20;
  let upper = load<u32>(at + 12);
  const perSlot = load<u32>(LEVELS_PER_SLOT);
  let index = level - 1;
  while (index >= perSlot) {
    upper = load<u32>(nodeAt(upper));
    index -= perSlot;
  }
  return nodeAt(upper) + 8 + <usize>index * ((<usize>load<u32>(M) + 1) << 2);
}
