// What is asked of a shard, as data that another node can be sent?

import type { Filter } from "@quiverdb/protocol/shapes/filter";

/** How a shard is asked. */
export type ShardOptions = {
  /** The version that is read; absent: the newest, or for what is not read at a version. */
  readonly atVersion?: number;
  /** A version that the shard must have reached; absent: any. */
  readonly notBefore?: number;
  /** A position of the log that the shard must have applied: not all that it writes makes a version. Absent: any. */
  readonly applied?: number;
  /** Whether `atVersion` may be an earlier one, which is opened where it is no longer served. */
  readonly isPast?: boolean;
  /** The records that the caller sees; absent: all. */
  readonly keyFilter?: Filter;
};

export type ShardCall = {
  /** Of shardMethods (shard.ts). */
  readonly method: string;
  readonly args: unknown;
  readonly options: ShardOptions;
};
