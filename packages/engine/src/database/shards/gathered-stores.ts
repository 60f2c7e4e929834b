// How does a version of a collection of several shards become a store, or the stores of other shards?
//
// Snapshots and copies are made of stores. So the records of all shards at one version are gathered here, in the order of their versions, and
// written into one store, or into those of the shards of a copy. The stores begin with that version: they have no earlier ones.

import { setImmediate as turn } from "node:timers/promises";
import { emptyBytes } from "../../base/bytes.ts";
import { Deadline } from "../../base/deadline.ts";
import { invariant } from "../../base/invariant.ts";
import type { StoredBytes } from "../../collection/reading.ts";
import type { Shard } from "../../collection/shard.ts";
import { collectionTables, metaKeys } from "../../collection/tables.ts";
import { type VersionOptions, VersionWriter } from "../../collection/version-copy.ts";
import { readVersion, type VersionEntry } from "../../collection/versions.ts";
import { syncStore } from "../../process/data-directory.ts";
import { LmdbStore } from "../../storage/lmdb.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import { openShards } from "./merged-export.ts";
import type { Shards } from "./shards.ts";

/** A store that does not exist yet. @param shard whose records it keeps; absent: all */
export type NewStore = { readonly directory: string; readonly shard?: Shard | undefined };

/** Records that are written between two turns of the event loop. */
const recordsPerTurn = 64;

/** Writes the records of a version into new stores, durably. @param signal aborts it */
export async function writeStores(
  targets: readonly NewStore[],
  records: AsyncIterable<StoredBytes> | Iterable<StoredBytes>,
  { version, hash, createdMs }: VersionEntry,
  options: VersionOptions,
  signal: AbortSignal,
): Promise<void> {
  const stores = targets.map(({ directory }) => new LmdbStore(directory, collectionTables));
  try {
    const writers = stores.map((store, i) => new VersionWriter(store, targets[i].shard));
    let written = 0;
    for await (const { record, dense } of records) {
      const vector = dense === null ? emptyBytes : bytesOfFloats(dense);
      for (const writer of writers) writer.add(record, vector);
      if (++written % recordsPerTurn !== 0) continue;
      await turn();
      signal.throwIfAborted();
    }
    for (const writer of writers) writer.finish({ version, hash, createdMs }, options);
  } finally {
    await Promise.all(stores.map((store) => store.close()));
  }
  for (const { directory } of targets) syncStore(directory);
}

/** Gathers a version of all shards in new stores. @param at an earlier version; undefined: the newest. @returns the version */
export async function gatherStores(
  shards: Shards,
  at: number | undefined,
  targets: readonly NewStore[],
  options: Omit<VersionOptions, "indexes">,
  signal: AbortSignal,
): Promise<VersionEntry> {
  const deadline = Deadline.of({ signal });
  const opened = await shards.atOneVersion(deadline, at, (options) =>
    openShards(shards, { isStored: true }, options, deadline),
  );
  try {
    const { entry, indexes } = shards.home.parts.state.read((readTxn) => ({
      entry: readVersion(readTxn, opened.version),
      indexes: readTxn.get("meta", metaKeys.indexes)?.slice(),
    }));
    invariant(entry !== undefined, `version ${opened.version} is not in the log`);
    const stored = async function* () {
      for await (const line of opened.lines) if (line.stored !== undefined) yield line.stored;
    };
    await writeStores(targets, stored(), entry, { ...options, indexes }, signal);
    return { ...entry, live: opened.count };
  } finally {
    opened.release();
  }
}
