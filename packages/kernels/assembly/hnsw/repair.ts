// How are the links of a node repaired after neighbours were removed?
//
// A link to a removed node is replaced by that node's own links (FreshDiskANN, arXiv:2105.09613, algorithm 4): the links are selected again
// from the remaining ones and the live neighbours of the removed ones. A removed node that is still part of the backbone, because it was
// removed after the backbone was rebuilt, keeps its link until the next sweep.

import { keptIds, select } from "./insert";
import { keysOf, queryOfNode } from "./keys";
import {
  enter,
  isDead,
  isProtected,
  leave,
  levelOf,
  listAt,
  lockNode,
  M,
  M0,
  S_BATCH,
  S_BEAM,
  S_EPOCH,
  S_KEYS,
  S_OWNER,
  S_TAGS,
  unlockNode,
} from "./layout";
import { entryOf, insert, mark, newEpoch } from "./search-layer";

/** Rids the node of links to removed nodes, on all levels. `candidatesMax` entries fit the beam. */
export function hnswRepair(scratch: usize, node: u32, candidatesMax: u32): void {
  enter(scratch);
  lockNode(node);
  for (let level = <i32>levelOf(node); level >= 0; level--) repairLevel(scratch, node, level, candidatesMax);
  unlockNode(node);
  leave(scratch);
}

function repairLevel(scratch: usize, node: u32, level: u32, candidatesMax: u32): void {
  const list = listAt(node, level);
  const count = load<u32>(list);
  let lost: u32 = 0;
  for (let i: usize = 0; i < count; i++) lost += <u32>isLost(node, load<u32>(list + 4 + (i << 2)), level);
  if (lost === 0) return;
  const query = <usize>load<u32>(scratch, S_OWNER);
  queryOfNode(node, query);
  newEpoch(scratch);
  mark(scratch, node);
  // Living links stay: they were chosen from far more candidates than there are here.
  const kept = keptIds(scratch);
  let length: u32 = 0;
  for (let i: usize = 0; i < count; i++) {
    const link = load<u32>(list + 4 + (i << 2));
    if (isLost(node, link, level)) continue;
    mark(scratch, link);
    store<u32>(kept + ((<usize>length) << 2), link);
    length++;
  }
  let candidates: u32 = 0;
  for (let i: usize = 0; i < count; i++) {
    const link = load<u32>(list + 4 + (i << 2));
    if (isLost(node, link, level))
      candidates = gather(scratch, listAt(link, level), candidates, candidatesMax, query);
  }
  const limit = level === 0 ? load<u32>(M0) : load<u32>(M);
  length = select(scratch, node, load<u32>(scratch, S_BEAM), candidates, limit, length);
  memory.copy(list + 4, kept, (<usize>length) << 2);
  atomic.store<u32>(list, length);
}

/** Whether a link must be removed: it leads to a removed node and is not part of the backbone. */
function isLost(node: u32, link: u32, level: u32): boolean {
  return isDead(link) && !(level === 0 && isProtected(node, link));
}

/** Sorts the living, unmarked nodes of a list into the `length` candidates; returns their new number. */
function gather(scratch: usize, list: usize, length: u32, candidatesMax: u32, query: usize): u32 {
  const ids = <usize>load<u32>(scratch, S_BATCH);
  const keys = <usize>load<u32>(scratch, S_KEYS);
  const tags = <usize>load<u32>(scratch, S_TAGS);
  const count = load<u32>(list);
  let living: u32 = 0;
  for (let i: usize = 0; i < count; i++) {
    const node = load<u32>(list + 4 + (i << 2));
    if (<u32>load<u8>(tags + node) === load<u32>(scratch, S_EPOCH) || isDead(node)) continue;
    mark(scratch, node);
    store<u32>(ids + ((<usize>living) << 2), node);
    living++;
  }
  if (living === 0) return length;
  const end = ids + ((<usize>living) << 2);
  const last = load<u32>(end - 4);
  store<u32>(end, last);
  store<u32>(end, last, 4);
  store<u32>(end, last, 8);
  keysOf(query, ids, living, keys);
  for (let i: usize = 0; i < living && length < candidatesMax; i++) {
    length++;
    insert(
      load<u32>(scratch, S_BEAM),
      length,
      entryOf(load<f32>(keys + (i << 2)), load<u32>(ids + (i << 2))),
    );
  }
  return length;
}
