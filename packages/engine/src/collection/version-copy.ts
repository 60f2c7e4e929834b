// How does an earlier version become a collection of its own?
//
// Its records, under the same ordinals, are written into an empty store, whose head is that of the version. Everything that can be asked of a
// collection can then be asked of the version: indexes are built from the records, statistics are those of the version.

import { QuiverError } from "@quiverdb/protocol/errors";
import { emptyBytes, u53Key } from "../base/bytes.ts";
import type { Reader, Store } from "../storage/store.ts";
import { formatBytes } from "./format.ts";
import { writeHead } from "./head.ts";
import { denseAt, type HistoryPolicy, historyOf, originTag, putTag, recordsAt } from "./history.ts";
import { RecordReader } from "./record.ts";
import { putRecord } from "./record-entries.ts";
import { keeps, type Shard } from "./shard.ts";
import { metaKeys } from "./tables.ts";
import { type VersionEntry, writeVersion } from "./versions.ts";
import { Batches, pageBytes } from "./write-batches.ts";

/** Writes the records of one version into an empty store. */
export class VersionWriter {
  readonly #batches: Batches;
  readonly #store: Store;
  readonly #shard: Shard | undefined;
  readonly #counts = { live: 0, dense: 0, sparse: 0, text: 0 };
  #nextOrdinal = 0;

  /** @param shard whose records the store keeps; undefined: all */
  constructor(store: Store, shard?: Shard) {
    this.#store = store;
    this.#batches = new Batches(store);
    this.#shard = shard;
  }

  get live(): number {
    return this.#counts.live;
  }

  /**
   * @param record as it is stored, and `dense` its vector: kept until they are written
   * @param ordinal greater than those before; absent: the next
   */
  add(record: Uint8Array, dense: Uint8Array, ordinal = this.#nextOrdinal): void {
    const { contents, idBytes, born } = new RecordReader(record);
    if (!keeps(this.#shard, idBytes)) {
      this.#batches.add(idBytes.length + pageBytes, (writer) => writer.put("others", idBytes, u53Key(born)));
      return;
    }
    const counts = this.#counts;
    counts.live++;
    if (contents.dense) counts.dense++;
    if (contents.sparse) counts.sparse++;
    if (contents.text) counts.text++;
    this.#nextOrdinal = ordinal + 1;
    this.#batches.add(record.length + dense.length + pageBytes, (writer) =>
      putRecord(writer, ordinal, record, dense),
    );
  }

  /**
   * Writes what is left, and the version. Must be the last call.
   * @param entry that of the version; its numbers of records and ordinals: default those that were added
   * @param indexes their definitions, as they are stored
   */
  finish(
    entry: Pick<VersionEntry, "version" | "hash" | "createdMs"> & Partial<VersionEntry>,
    { indexes, history = null, isOrigin = false }: VersionOptions,
  ): void {
    this.#batches.flush();
    const own = { live: this.live, firstOrdinal: this.#nextOrdinal, opened: 0, ...entry };
    this.#store.write((writer) => {
      writer.put("meta", metaKeys.format, formatBytes("collection"));
      if (indexes !== undefined) writer.put("meta", metaKeys.indexes, indexes);
      if (history !== null) writer.put("meta", metaKeys.history, historyOf(history, entry.version));
      writeVersion(writer, own);
      const head = {
        ...this.#counts,
        version: entry.version,
        hash: entry.hash,
        nextOrdinal: own.firstOrdinal + own.opened,
        nextTransaction: 1,
        openTransaction: 0,
        sequence: 0,
        epoch: 0,
      };
      if (isOrigin) putTag(writer, head, originTag, own);
      writeHead(writer, head);
    });
  }
}

export type VersionOptions = {
  readonly indexes?: Uint8Array | undefined;
  /** What the copy keeps of its own versions. */
  readonly history?: HistoryPolicy | null;
  /** Whether the copy keeps the version, under a tag, so that it can be merged. */
  readonly isOrigin?: boolean;
};

/**
 * @param onRow called for every record; may throw to cancel the work
 * @throws version_gone where the records are not all there any more
 */
export function copyVersion(
  reader: Reader,
  store: Store,
  entry: VersionEntry,
  history: HistoryPolicy | null,
  isOrigin: boolean,
  onRow: () => void,
): void {
  const copy = new VersionWriter(store);
  for (const stored of recordsAt(reader, entry)) {
    const own = stored.record.slice();
    const { contents } = new RecordReader(own);
    copy.add(own, contents.dense ? denseAt(reader, stored).slice() : emptyBytes, stored.ordinal);
    onRow();
  }
  if (copy.live !== entry.live)
    throw new QuiverError(
      "version_gone",
      `Of version ${entry.version}, ${copy.live} of ${entry.live} records are still there. Read a later version.`,
      { version: entry.version },
    );
  const indexes = reader.get("meta", metaKeys.indexes)?.slice();
  copy.finish(entry, { indexes, history, isOrigin });
}
