// What is an HNSW index told when it is made, and when it is searched?

import type { MetricName } from "@quiver/protocol/shapes/index-definition";
import type { Visible } from "../contract.ts";
import type { Allowed } from "../ordinal-bitmap.ts";
import type { HnswDataType } from "./code-types.ts";
import type { VectorReader } from "./exact-search.ts";
import type { FingerprintKey } from "./fingerprints.ts";
import type { GraphBuilders } from "./jobs.ts";

export type HnswOptions = {
  /** 1 to 65,535. */
  dimension: number;
  metric: MetricName;
  /** Codes of this type; `auto` measures and chooses. */
  dataType: HnswDataType | "auto";
  /** Values of vectors are clamped to it before they are encoded; default none. */
  range?: { readonly min: number; readonly max: number } | undefined;
  /** Links of a node above level 0, 2 at least; default 16. */
  m?: number;
  /** Links at level 0, 2 at least; default twice `m`. */
  m0?: number;
  /** Nodes weighed as links of a new one, `efMax` at most; default 128. */
  efConstruction?: number;
  /** Greatest number of levels; default 9. */
  levelsMax?: number;
  /** Decides the levels; default 0. */
  seed?: number;
  /** Distinct vectors that are gathered before codes are calibrated and the graph begins; default 1,000. */
  sampleCount?: number;
  /** Bytes of one graph's memory; 4 GiB at most, the default. */
  memoryBytesMax?: number;
  /** Full-precision vectors of what is in graphs that are kept in memory; default all. */
  cacheMax?: number;
  /** Whether so many bytes more may be taken that the index can do without: for the cache, or for a successor. Default: always. */
  mayTake?: (bytes: number) => boolean;
  /** Threads that may search at a time, this one included; default 1. Each has scratch memory of its own, this one that of number 0. */
  searchers?: number;
  /** Who builds; default: this thread, in place. */
  builders?: GraphBuilders;
  /** Length of the beam where a search names none; default 128. */
  efSearch?: number;
  /** Whether recall is measured in the background, and acted upon where it is too low; default true. */
  measures?: boolean;
  /** Decides the hash that finds equal vectors; a random one keeps others from making vectors that collide. */
  fingerprintKey?: FingerprintKey;
  /** Reads the newest vector of a record, for building where not all are in the cache; undefined: the record is gone. */
  readVector?: (ordinal: number) => Uint8Array | undefined;
  /** Calls when no search goes on that has begun before; default: at once. */
  retire?: ((free: () => void) => void) | undefined;
  /** Told when building has failed; the index goes on by exact scans. */
  onError?: (error: unknown) => void;
  /** Told when a builder has done a job. */
  onProgress?: () => void;
  /** Told when `tidy` has something to do. */
  onMore?: () => void;
  /** Told what was done about recall that is too low. */
  onNotice?: (notice: string) => void;
};

export type HnswSearch = {
  /** Length of the beam; at least k is used. A beam beyond `efMax` means an exact scan. */
  ef?: number | undefined;
  visible?: Visible;
  /** The ordinals that may be found at all; default: all. */
  allowed?: Allowed;
  /** How allowed records are found: by following links as far as a beam may, or by comparing vectors. Default: by what costs less. */
  way?: "graph" | "scan" | undefined;
  /** How many of the best by code are scored exactly; default by the type of the codes. */
  rescore?: number | undefined;
  /** Reads vectors that are not in the cache; needed where `cacheMax` is less than all. */
  vectorOf?: VectorReader;
  /** A record that the search is to go by as if it were not there: no way leads over it, and it is not found. */
  without?: number;
};
