// Where does everything lie in the memory of a graph of some shape, and how many units fit?
//
// The memory is drawn in kernels/assembly/hnsw/layout.ts.

import { lockCount } from "@quiver/kernels/hnsw";
import { pageBytes, pagesMax } from "@quiver/kernels/loader";

/** Beams are not longer than this: a search that needs more reads all records. */
export const efMax = 4_096;

/** What the memory of a graph is laid out by. */
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
  /** Threads that may search or build at a time, each in an area of its own. */
  readonly areas: number;
};

const align = (bytes: number, to = 128): number => Math.ceil(bytes / to) * to;

/** A unit's number and that of its graph fit one u32 together, see node-map.ts. */
const unitsLimit = 2 ** 24;

/** Bytes of a node beside its code and links. */
const nodeBytes = 24;

/** Where the first area lies, and how far its fields reach. */
export const areaAt = 128;
const fieldsBytes = 128;
/** The arrays of an area. */
export const arrays = [
  "query",
  "owner",
  "candidate",
  "beam",
  "batch",
  "keys",
  "kept",
  "shrink",
  "tags",
] as const;

/** Byte offsets and sizes in the memory. */
export type GraphLayout = {
  readonly unitBytes: number;
  readonly levelsPerUnit: number;
  readonly unitsMax: number;
  readonly nodesAt: number;
  readonly areaBytes: number;
  readonly locksAt: number;
  /** Where the arrays of an area lie in it. */
  readonly places: Readonly<Record<string, number>>;
  readonly pages: number;
};

/** Where everything lies in a graph of this shape, and how many units fit. */
export function layOutGraph(shape: GraphShape): GraphLayout {
  const { codeBytes, queryBytes, m, m0, efMax, areas } = shape;
  const unitBytes = Math.max(align(codeBytes + nodeBytes + 4 * m0), align(8 + 4 * (m + 1)));
  const links = Math.max(m, m0) + 8;
  const places: Record<string, number> = {};
  let at = fieldsBytes;
  const place = (name: (typeof arrays)[number], bytes: number) => {
    places[name] = at;
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
  const pages = Math.min(pagesMax, Math.floor(shape.memoryBytesMax / pageBytes));
  // A tag is a byte for each unit that can ever be; the system gives pages only to those that are touched.
  const room = pages * pageBytes - (areaAt + areas * at) - 4 * lockCount - 128 * (1 + areas);
  const unitsMax = Math.min(unitsLimit, Math.floor(room / (unitBytes + areas)));
  place("tags", Math.max(0, unitsMax));
  const locksAt = areaAt + areas * at;
  return {
    unitBytes,
    levelsPerUnit: Math.floor((unitBytes - 8) / (4 * (m + 1))),
    unitsMax,
    nodesAt: align(locksAt + 4 * lockCount),
    areaBytes: at,
    locksAt,
    places,
    pages,
  };
}

/** The header, the areas, so many units, and as many tags in each area. */
export function bytesInUse(
  { nodesAt, unitsMax, unitBytes }: Pick<GraphLayout, "nodesAt" | "unitsMax" | "unitBytes">,
  areas: number,
  units: number,
): number {
  return nodesAt - areas * unitsMax + units * (unitBytes + areas);
}
