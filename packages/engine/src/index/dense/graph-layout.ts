// Where does everything lie in the memory of a graph of some shape, and how many node slots fit?
//
// The memory is drawn in kernels/assembly/hnsw/layout.ts.

import { lockCount, seedsMax } from "@quiverdb/kernels/hnsw";
import { pageBytes, pagesMax } from "@quiverdb/kernels/loader";

/** Beams are not longer than this: a search that needs more reads all records. */
export const efMax = 4_096;

/** The parameters of the memory layout of a graph. */
export type GraphShape = {
  readonly codeBytes: number;
  /** Bytes of a query code. */
  readonly queryBytes: number;
  /** By number, see kernels/assembly/hnsw/keys.ts. */
  readonly dataType: number;
  readonly m: number;
  readonly m0: number;
  readonly efConstruction: number;
  readonly efMax: number;
  readonly buildMode: number;
  readonly memoryBytesMax: number;
  /** Threads that may search or build at a time, each with its own scratch memory. */
  readonly scratchCount: number;
};

const align = (bytes: number, to = 128): number => Math.ceil(bytes / to) * to;

/** A node slot's number and that of its graph fit one u32 together, see node-map.ts. */
const slotsLimit = 2 ** 24;

/** Bytes of a slot in the scratch memory of each thread: a tag and a bit. */
const slotScratchBytes = 1 + 1 / 8;

/** Bytes of a node besides its code and links. */
const nodeBytes = 24;

/** The offset of the first thread's scratch memory, and the size of its fields. */
export const scratchAt = 128;
const fieldsBytes = 128;
/** The arrays in a thread's scratch memory. */
export const arrays = [
  "query",
  "owner",
  "candidate",
  "beam",
  "batch",
  "keys",
  "kept",
  "shrink",
  "seeds",
  "tags",
  "allowed",
] as const;

/** Byte offsets and sizes in the memory. */
type GraphLayout = {
  readonly slotBytes: number;
  readonly levelsPerSlot: number;
  readonly slotsMax: number;
  readonly nodesAt: number;
  readonly scratchBytes: number;
  readonly locksAt: number;
  /** Where the arrays lie in a thread's scratch memory. */
  readonly places: Readonly<Record<string, number>>;
  readonly pages: number;
};

/** Where everything lies in a graph of this shape, and how many slots fit. */
export function layOutGraph(shape: GraphShape): GraphLayout {
  const { codeBytes, queryBytes, m, m0, efMax, scratchCount } = shape;
  const slotBytes = Math.max(align(codeBytes + nodeBytes + 4 * m0), align(8 + 4 * (m + 1)));
  const links = Math.max(m, m0) + 8;
  const places: Record<string, number> = {};
  let at = fieldsBytes;
  const place = (vectorKey: (typeof arrays)[number], bytes: number) => {
    places[vectorKey] = at;
    at += align(bytes);
  };
  place("query", queryBytes);
  place("owner", queryBytes);
  place("candidate", queryBytes);
  place("beam", 8 * (efMax + 8));
  place("batch", 4 * links);
  place("keys", 4 * links);
  place("kept", 4 * links);
  place("shrink", 12 * links);
  place("seeds", 4 * seedsMax);
  const pages = Math.min(pagesMax, Math.floor(shape.memoryBytesMax / pageBytes));
  // A tag byte and a bit for each possible slot; the system allocates pages only for those that are touched.
  const room =
    pages * pageBytes - (scratchAt + scratchCount * at) - 4 * lockCount - 128 * (1 + 2 * scratchCount);
  const slotsMax = Math.min(slotsLimit, Math.floor(room / (slotBytes + scratchCount * slotScratchBytes)));
  place("tags", Math.max(0, slotsMax));
  place("allowed", Math.max(0, Math.ceil(slotsMax / 8)));
  const locksAt = scratchAt + scratchCount * at;
  return {
    slotBytes,
    levelsPerSlot: Math.floor((slotBytes - 8) / (4 * (m + 1))),
    slotsMax,
    nodesAt: align(locksAt + 4 * lockCount),
    scratchBytes: at,
    locksAt,
    places,
    pages,
  };
}

/** Bytes of the header, of each thread's scratch memory, of the given number of node slots, and of a tag and a bit per slot and thread. */
export function bytesInUse(
  { nodesAt, slotsMax, slotBytes }: Pick<GraphLayout, "nodesAt" | "slotsMax" | "slotBytes">,
  scratchCount: number,
  slots: number,
): number {
  return (
    nodesAt -
    scratchCount * slotScratchBytes * slotsMax +
    slots * (slotBytes + scratchCount * slotScratchBytes)
  );
}

// ---- Which states does a node slot of a graph have? They are drawn in partition.ts.

/** The states of a node slot. */
export const kinds = { free: 0, node: 1, upper: 2, dead: 3, unlinked: 4 } as const;
