// Which nodes of a graph have allowed records?
//
// A bit for each slot, and some of the nodes, spread over all of them, at which a search among them begins (kernels/assembly/hnsw/search-allowed.ts).
// Made once for a set, and remembered with it: sets are used for many queries (query/filter/look-up.ts). A node that is
// given to another record later keeps its bit, so what is found is tested by vector key.

import { seedsMax } from "@quiverdb/kernels/hnsw";
import { invariant } from "../../base/invariant.ts";
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

// ---- Which nodes have 32 adjacent records, without looking up each?
//
// Nodes are taken in the order of ordinals, and one of 16 has a further slot for its upper levels. So the records of a block of 32 ordinals
// have nodes in a few rows, in each of which nodes are as far apart as their records. What was looked up once is remembered as rows: the
// node that the first ordinal of the block would have in the row, and a bit for each record that is in it. Then the bits of a block of
// allowed records become bits of nodes by one shift for each row.
//
//   records  0 1 1 0 1 0 0 1 ...   of block b, allowed
//   row 0    1 1 1 1 1 . . .       base 70: nodes 70 to 74
//   row 1    . . . . . 1 1 1       base 71: nodes 76 to 78, behind a slot of upper levels
//
// Nothing is prepared: rows are learned as sets of records ask for them, and a record that is removed is forgotten, because its node gets
// another record. Records without a row, and those that share their node, are looked up each time.

const rowsPerBlock = 6;

export class NodeBlocks {
  /** By block of 32 ordinals and row. */
  #bases = new Int32Array(0);
  /** The records of a row, a bit for each; 0: there is no such row yet. */
  #records = new Uint32Array(0);
  #knownCount = 0;
  /** Searches among allowed records so far. */
  uses = 0;

  /** Records that are in rows. */
  get knownCount(): number {
    return this.#knownCount;
  }

  get memoryBytes(): number {
    return this.#bases.byteLength + this.#records.byteLength;
  }

  /** A record is removed. */
  forget(ordinal: number): void {
    const bit = 1 << (ordinal & 31);
    const first = rowsPerBlock * (ordinal >>> 5);
    const end = Math.min(first + rowsPerBlock, this.#records.length);
    for (let row = first; row < end; row++) {
      if ((this.#records[row] & bit) === 0) continue;
      this.#records[row] &= ~bit;
      this.#knownCount--;
      invariant(this.#knownCount >= 0, () => `${this.#knownCount} records are in rows`);
    }
  }

  /**
   * The nodes of allowed records: a bit for each slot.
   * @param slotsNow of the graph: other threads link more meanwhile
   * @param nodeOf looks up the node of a record; negative: it has none
   * @param isOwn whether a record has this node as long as it exists
   */
  nodesOf(
    slotsNow: () => number,
    { words, firstWord }: OrdinalBitmap,
    nodeOf: (ordinal: number) => number,
    isOwn: (ordinal: number) => boolean,
  ): Uint32Array<ArrayBuffer> {
    let slots = slotsNow();
    let bits = new Uint32Array((slots >>> 5) + 2);
    this.#grow(firstWord + words.length);
    const [bases, records] = [this.#bases, this.#records];
    for (let at = 0; at < words.length; at++) {
      let left = words[at];
      const first = rowsPerBlock * (firstWord + at);
      for (let row = first; left !== 0 && row < first + rowsPerBlock; row++) {
        const known = left & records[row];
        if (known === 0) continue;
        shiftInto(bits, bases[row], known);
        left &= ~known;
      }
      for (; left !== 0; left &= left - 1) {
        const place = 31 - Math.clz32(left & -left);
        const ordinal = 32 * (firstWord + at) + place;
        const node = nodeOf(ordinal);
        if (node < 0) continue;
        if (node >= slots) {
          slots = slotsNow();
          invariant(node < slots, `record ${ordinal} has node ${node} of ${slots}`);
          const more = new Uint32Array((slots >>> 5) + 2);
          more.set(bits);
          bits = more;
        }
        bits[node >>> 5] |= 1 << (node & 31);
        if (isOwn(ordinal)) this.#learn(first, place, node);
      }
    }
    return bits;
  }

  #learn(first: number, place: number, node: number): void {
    const base = node - place;
    if (base < 0) return;
    for (let row = first; row < first + rowsPerBlock; row++) {
      if (this.#records[row] !== 0 && this.#bases[row] !== base) continue;
      this.#bases[row] = base;
      this.#records[row] |= 1 << place;
      this.#knownCount++;
      return;
    }
  }

  #grow(blocks: number): void {
    const wanted = rowsPerBlock * blocks;
    if (wanted <= this.#records.length) return;
    const length = Math.max(rowsPerBlock * 256, wanted, Math.floor(1.5 * this.#records.length));
    const [bases, records] = [new Int32Array(length), new Uint32Array(length)];
    bases.set(this.#bases);
    records.set(this.#records);
    this.#bases = bases;
    this.#records = records;
  }
}

/** Sets the bits of a word from a place on; there is a word behind the last that is reached. */
function shiftInto(bits: Uint32Array, from: number, word: number): void {
  const [at, by] = [from >>> 5, from & 31];
  bits[at] |= word << by;
  if (by !== 0) bits[at + 1] |= word >>> (32 - by);
}
