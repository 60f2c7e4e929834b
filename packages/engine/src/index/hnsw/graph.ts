// Where does an HNSW graph lie, and which units of it are free?
//
// One shared WebAssembly memory, drawn in kernels/assembly/hnsw/layout.ts: whatever a search needs is in it, so a thread
// searches by instantiating the kernels on it with an area of its own. This class lays it out, grows it, and hands out
// units; it knows nothing of vectors.

import { area, type HnswKernels, header, instantiateHnsw, none } from "@quiver/kernels/hnsw";
import { pageBytes, pagesMax } from "@quiver/kernels/loader";
import { invariant } from "../../base/invariant.ts";

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
};

const align = (bytes: number, to = 128): number => Math.ceil(bytes / to) * to;

/** Where the one area of this class lies. */
const areaAt = 128;

export class Graph {
  readonly shape: GraphShape;
  readonly kernels: HnswKernels;
  readonly area = areaAt;
  readonly unitBytes: number;
  readonly levelsPerUnit: number;
  readonly nodesAt: number;
  readonly unitsMax: number;
  /** The whole memory; replaced when it grows. */
  bytes: Uint8Array;
  words: Uint32Array;
  floats: Float32Array;
  readonly #memory: WebAssembly.Memory;
  readonly #free: number[] = [];

  constructor(shape: GraphShape) {
    this.shape = shape;
    const { codeBytes, queryBytes, m, m0, efMax } = shape;
    this.unitBytes = Math.max(align(codeBytes + 20 + 4 * m0), align(8 + 4 * (m + 1)));
    this.levelsPerUnit = Math.floor((this.unitBytes - 8) / (4 * (m + 1)));
    const links = Math.max(m, m0) + 8;
    const places: Record<string, number> = {};
    let at = areaAt + 128;
    const place = (name: string, bytes: number) => {
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
    this.unitsMax = Math.floor((pages * pageBytes - at - 128) / (this.unitBytes + 1));
    invariant(this.unitsMax >= 1, `a graph of ${shape.memoryBytesMax} bytes holds no node`);
    place("tags", this.unitsMax);
    this.nodesAt = at;
    this.#memory = new WebAssembly.Memory({
      initial: Math.ceil(at / pageBytes),
      maximum: pages,
      shared: true,
    });
    this.kernels = instantiateHnsw(this.#memory);
    this.bytes = new Uint8Array(this.#memory.buffer);
    this.words = new Uint32Array(this.#memory.buffer);
    this.floats = new Float32Array(this.#memory.buffer);
    const set = (field: keyof typeof header, value: number) => {
      this.words[header[field] / 4] = value;
    };
    set("codeBytes", codeBytes);
    set("dataType", shape.dataType);
    set("queryBytes", queryBytes);
    set("m", m);
    set("m0", m0);
    set("efConstruction", shape.efConstruction);
    set("unitBytes", this.unitBytes);
    set("levelsPerUnit", this.levelsPerUnit);
    set("nodesAt", this.nodesAt);
    set("entry", none);
    set("buildMode", shape.buildMode);
    for (const name of ["query", "owner", "candidate", "beam", "batch", "keys", "kept", "shrink", "tags"]) {
      this.words[(areaAt + area[name as keyof typeof area]) / 4] = places[name];
    }
  }

  get units(): number {
    return this.words[header.units / 4];
  }

  get entry(): number {
    return this.words[header.entry / 4];
  }

  set entry(node: number) {
    this.words[header.entry / 4] = node;
  }

  /** Bytes in use: the header, the area, the units, and as many tags. */
  get memoryBytes(): number {
    return this.nodesAt - this.unitsMax + this.units * (this.unitBytes + 1);
  }

  get freeUnits(): readonly number[] {
    return this.#free;
  }

  /** Units that a node of this level takes. */
  unitsFor(level: number): number {
    return 1 + Math.ceil(level / this.levelsPerUnit);
  }

  /** Whether a node of this level still fits. */
  hasRoom(level: number): boolean {
    return this.units - this.#free.length + this.unitsFor(level) <= this.unitsMax;
  }

  /** Where a field of the area points at, in bytes. */
  placeOf(field: keyof typeof area): number {
    return this.words[(areaAt + area[field]) / 4];
  }

  at(unit: number): number {
    return this.nodesAt + unit * this.unitBytes;
  }

  /** Index in `words` of a node's factor; its bias, ordinal, upper unit and count follow. */
  metaAt(node: number): number {
    return (this.at(node) + this.shape.codeBytes) / 4;
  }

  ordinalOf(node: number): number {
    return this.words[this.metaAt(node) + 2];
  }

  levelOf(node: number): number {
    const upper = this.words[this.metaAt(node) + 3];
    return upper === none ? 0 : this.words[this.at(upper) / 4 + 1];
  }

  /** Index in `words` of the count of a node's links at a level; the links follow. */
  listAt(node: number, level: number): number {
    const meta = this.metaAt(node);
    if (level === 0) return meta + 4;
    let upper = this.words[meta + 3];
    let index = level - 1;
    for (; index >= this.levelsPerUnit; index -= this.levelsPerUnit) upper = this.words[this.at(upper) / 4];
    return this.at(upper) / 4 + 2 + index * (this.shape.m + 1);
  }

  /** The links of a node at a level, as a view. */
  linksOf(node: number, level: number): Uint32Array {
    const list = this.listAt(node, level);
    return this.words.subarray(list + 1, list + 1 + this.words[list]);
  }

  /** The upper units of a node. */
  upperOf(node: number): number[] {
    const units: number[] = [];
    for (let unit = this.words[this.metaAt(node) + 3]; unit !== none; unit = this.words[this.at(unit) / 4]) {
      units.push(unit);
    }
    return units;
  }

  /** Takes the units of a node, zeroed, and makes its chain of upper units. The caller has seen that there is room. */
  make(ordinal: number, level: number): number {
    const node = this.#take();
    const meta = this.metaAt(node);
    this.words[meta + 2] = ordinal;
    this.words[meta + 3] = none;
    let previous = meta + 3;
    for (let made = 0; made < level; made += this.levelsPerUnit) {
      const unit = this.#take();
      this.words[previous] = unit;
      previous = this.at(unit) / 4;
      this.words[previous] = none;
      this.words[previous + 1] = level;
    }
    return node;
  }

  /** Takes the links to some nodes out of a list. */
  dropLinks(node: number, level: number, gone: ReadonlySet<number>): void {
    const list = this.listAt(node, level);
    const kept = this.linksOf(node, level).filter((link) => !gone.has(link));
    this.words.set(kept, list + 1);
    this.words[list] = kept.length;
  }

  /** Gives the units of a node back, to which no link leads any more. */
  free(node: number): void {
    this.#free.push(...this.upperOf(node), node);
  }

  /** Forgets all nodes. */
  clear(): void {
    this.#free.length = 0;
    this.entry = none;
    this.words[header.units / 4] = 0;
  }

  #take(): number {
    const freed = this.#free.pop();
    const unit = freed ?? this.units;
    if (freed === undefined) {
      const end = this.at(unit + 1);
      if (end > this.bytes.byteLength) this.#grow(end);
      this.words[header.units / 4] = unit + 1;
      this.bytes[this.placeOf("tags") + unit] = 0;
    }
    this.bytes.fill(0, this.at(unit), this.at(unit + 1));
    return unit;
  }

  #grow(end: number): void {
    const pages = this.bytes.byteLength / pageBytes;
    const wanted = Math.max(Math.ceil(end / pageBytes), Math.floor(pages * 1.125));
    const most = Math.floor(this.shape.memoryBytesMax / pageBytes);
    this.#memory.grow(Math.min(wanted, most, pagesMax) - pages);
    this.bytes = new Uint8Array(this.#memory.buffer);
    this.words = new Uint32Array(this.#memory.buffer);
    this.floats = new Float32Array(this.#memory.buffer);
  }
}
