// Which nodes of a graph have allowed records?
//
// A bit for each slot, and some of the nodes, spread over all of them, at which a search among them begins (kernels/assembly/hnsw/search-allowed.ts).
// Made once for a set, and remembered with it: sets are used for many queries (query/filter/look-up.ts). A node that is
// given to another record later keeps its bit, so what is found is tested by vector key.

import { seedsMax } from "@quiverdb/kernels/hnsw";
import { bitsOf, countBits, type OrdinalBitmap } from "../ordinal-bitmap.ts";

export class AllowedNodes {
  readonly bits: Uint8Array;
  readonly seeds: Uint32Array;
  /** Nodes whose bits are set. */
  readonly count: number;

  /** @param words a bit for each slot; kept */
  constructor(words: Uint32Array<ArrayBuffer>) {
    this.bits = new Uint8Array(words.buffer);
    this.count = countBits(words);
    this.seeds = spread(words, this.count, Math.min(seedsMax, this.count));
  }
}

/** Some of the bits that are set, evenly. @param count bits that are set. @param wanted how many, at most `count` */
function spread(words: Uint32Array, count: number, wanted: number): Uint32Array {
  const chosen = new Uint32Array(wanted);
  const step = count / wanted;
  let passed = 0;
  for (let at = 0, found = 0; found < wanted; at++) {
    let left = words[at];
    const end = passed + bitsOf(left);
    // Most words have none of the chosen ones.
    for (let next = Math.floor(found * step); next < end; next = Math.floor(found * step)) {
      for (; passed < next; passed++) left &= left - 1;
      chosen[found] = 32 * at + 31 - Math.clz32(left & -left);
      if (++found === wanted) break;
    }
    passed = end;
  }
  return chosen;
}

type Remembered = { of: object; moment: string; nodes: AllowedNodes };

const remembered = new WeakMap<OrdinalBitmap, Remembered>();

/**
 * The nodes of a set, if they are remembered.
 * @param of the graphs. @param moment changes when a record of the set may have got a node
 */
export function knownNodes(allowed: OrdinalBitmap, of: object, moment: string): AllowedNodes | undefined {
  const known = remembered.get(allowed);
  return known?.of === of && known.moment === moment ? known.nodes : undefined;
}

/** Remembers the nodes of a set. */
export function rememberNodes(allowed: OrdinalBitmap, of: object, moment: string, nodes: AllowedNodes): void {
  remembered.set(allowed, { of, moment, nodes });
}
