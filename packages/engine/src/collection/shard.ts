// Which records of a collection does a store keep?
//
// A collection of a cluster can have several shards, each a store with replicas of its own. All of them apply the whole log of the
// collection, so that they have the same versions, hashes, transactions and refusals without asking each other: a batch over several shards is
// one entry. A store keeps the records of its shard; of every other live record it keeps which version wrote it (table `others`), which is
// all that a refusal depends on: whether a record to delete exists, and whether one is as a condition asks.

import { readU53 } from "../base/bytes.ts";
import { host } from "../base/host.ts";
import type { Reader } from "../storage/store.ts";
import { RecordReader } from "./record.ts";

/** One of the shards of a collection: its number, from 0, and how many there are. */
export type Shard = { readonly number: number; readonly of: number };

/** The shard of a record. CRC-32 is linear: alike ids would have alike remainders, so its bits are mixed (murmur3's finalizer). */
export function shardOf(id: Uint8Array, shards: number): number {
  let hash = host.crc32(id);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) % shards;
}

/** Whether the store of a shard keeps a record. @param shard undefined: of all records */
export const keeps = (shard: Shard | undefined, id: Uint8Array): boolean =>
  shard === undefined || shardOf(id, shard.of) === shard.number;

/** Whether a live record has the id, in any shard. */
export const exists = (reader: Reader, id: Uint8Array): boolean =>
  reader.get("ids", id) !== undefined || reader.get("others", id) !== undefined;

/** The version that wrote the live record of an id, in any shard; 0 if there is none. */
export function bornOf(reader: Reader, id: Uint8Array): number {
  const ordinal = reader.get("ids", id)?.slice();
  const record = ordinal && reader.get("records", ordinal);
  if (record !== undefined) return new RecordReader(record).born;
  const other = reader.get("others", id);
  return other === undefined ? 0 : readU53(other);
}
