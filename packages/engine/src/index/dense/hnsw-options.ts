// What are the options of an HNSW index and of its searches?

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import { type Builders, InPlaceBuilders } from "../builders.ts";
import type { Visible } from "../contract.ts";
import type { Allowed } from "../ordinal-bitmap.ts";
import type { HnswDataType } from "./code-types.ts";
import type { FingerprintKey } from "./fingerprints.ts";
import type { VectorReader } from "./searched-vectors.ts";

export type HnswOptions = {
  /** 1 to 65,535. */
  dimension: number;
  metric: MetricName;
  /** Codes of this type; `auto` measures and chooses. */
  dataType: HnswDataType | "auto";
  /** Values of vectors are clamped to it before they are encoded; default none. */
  range?: { readonly min: number; readonly max: number } | undefined;
  /** Links of a node above level 0, at least 2; default 16. */
  m?: number;
  /** Links at level 0, at least 2; default twice `m`. */
  m0?: number;
  /** Nodes weighed as links of a new one, `efMax` at most; default 128. */
  efConstruction?: number;
  /** Maximum number of levels; default 9. */
  levelsMax?: number;
  /** Decides the levels; default 0. */
  seed?: number;
  /** Distinct vectors that are gathered before codes are calibrated and the graph begins; default 1,000. */
  sampleCount?: number;
  /** Bytes of one graph's memory; 4 GiB at most, the default. */
  memoryBytesMax?: number;
  /** Maximum number of full-precision vectors of graph nodes in memory; default all. */
  cacheMax?: number;
  /** Whether this many more bytes may be allocated for optional memory: the cache or a successor. Default: always. */
  mayTake?: (bytes: number) => boolean;
  /** Threads that may search at a time, this one included; default 1. Each has scratch memory of its own, this one that of number 0. */
  searchers?: number;
  /** Who builds; default: this thread, in place. */
  builders?: Builders;
  /** Length of the beam where a search names none; default 128. */
  efSearch?: number;
  /** Whether recall is measured in the background, and improved if it is too low; default true. */
  measures?: boolean;
  /** A graph of fewer bytes stays as it was built, a larger one is ordered (node-order.ts); default 8 MiB, what a core's caches hold. */
  orderedBytesMin?: number;
  /** Decides the hash that finds equal vectors; a random one keeps others from making vectors that collide. */
  fingerprintKey?: FingerprintKey;
  /** Reads the newest vector of a record, for building where not all are in the cache; undefined: the record is gone. */
  readVector?: (ordinal: number) => Uint8Array | undefined;
  /** Calls when no search goes on that has begun before; default: at once. */
  retire?: ((free: () => void) => void) | undefined;
  /** Told when building has failed; the index goes on by exact scans. */
  onError?: (error: unknown) => void;
  /** Called when a builder has completed a job. */
  onProgress?: () => void;
  /** Called when `tidy` has something to do. */
  onMore?: () => void;
  /** Called with a message about measures against low recall. */
  onNotice?: (notice: string) => void;
};

type Optional =
  | "range"
  | "retire"
  | "mayTake"
  | "readVector"
  | "onError"
  | "onProgress"
  | "onMore"
  | "onNotice";

export type CompleteOptions = Required<Omit<HnswOptions, Optional>> & Pick<HnswOptions, Optional>;

/** The options with their defaults. */
export function completeOptions(options: HnswOptions): CompleteOptions {
  const m = Math.max(2, options.m ?? 16);
  return {
    efConstruction: 128,
    levelsMax: 9,
    seed: 0,
    sampleCount: 1_000,
    memoryBytesMax: 2 ** 32,
    cacheMax: Number.POSITIVE_INFINITY,
    searchers: 1,
    efSearch: 128,
    builders: new InPlaceBuilders(),
    measures: true,
    orderedBytesMin: 8 * 1024 * 1024,
    fingerprintKey: [0x9e37_79b9, 0x7f4a_7c15],
    ...options,
    m,
    m0: Math.max(2, options.m0 ?? 2 * m),
  };
}

export type HnswSearch = {
  /** Beam width; at least k is used. A beam beyond `efMax` means an exact scan. */
  ef?: number | undefined;
  /** Whether a beam that is set may end by distance, as measured for it (`HnswIndex.askCut`); default false. */
  mayCut?: boolean | undefined;
  /** Whether it is widened, as one that is not set, for a query that is far from all vectors; default false. */
  mayWiden?: boolean | undefined;
  visible?: Visible;
  /** The ordinals that may be found at all; default: all. */
  allowed?: Allowed;
  /** How allowed records are found: by following links as far as a beam may, or by comparing vectors. Default: by what costs less. */
  way?: "graph" | "scan" | undefined;
  /** How many of the best by code are scored exactly; default by the type of the codes. */
  rescore?: number | undefined;
  /** Reads vectors that are not in the cache; needed where `cacheMax` is less than all. */
  vectorOf?: VectorReader;
  /** A record that the search ignores: it does not follow its links, and does not find it. */
  without?: number;
};
