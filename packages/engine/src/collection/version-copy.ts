// How does an earlier version become a collection of its own?
//
// Its records, under the same ordinals, are written into an empty store, whose head is that of the version. Everything that can be asked of a
// collection can then be asked of the version: indexes are built from the records, statistics are those of the version.

import { QuiverError } from "@quiverdb/protocol/errors";
import { emptyBytes } from "../base/bytes.ts";
import type { Reader, Store } from "../storage/store.ts";
import { formatBytes } from "./format.ts";
import { writeHead } from "./head.ts";
import { denseAt, type HistoryPolicy, historyOf, originTag, putTag, recordsAt } from "./history.ts";
import { RecordReader } from "./record.ts";
import { putRecord } from "./record-entries.ts";
import { metaKeys } from "./tables.ts";
import { type VersionEntry, writeVersion } from "./versions.ts";
import { Batches, pageBytes } from "./write-batches.ts";

/**
 * @param history what the copy keeps of its own versions
 * @param isOrigin whether the copy keeps the version, under a tag, so that it can be merged
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
  const counts = { live: 0, dense: 0, sparse: 0, text: 0 };
  const batches = new Batches(store);
  for (const stored of recordsAt(reader, entry)) {
    const own = stored.record.slice();
    const { contents } = new RecordReader(own);
    const dense = contents.dense ? denseAt(reader, stored).slice() : emptyBytes;
    counts.live++;
    if (contents.dense) counts.dense++;
    if (contents.sparse) counts.sparse++;
    if (contents.text) counts.text++;
    batches.add(own.length + dense.length + pageBytes, (writer) =>
      putRecord(writer, stored.ordinal, own, dense),
    );
    onRow();
  }
  batches.flush();
  if (counts.live !== entry.live)
    throw new QuiverError(
      "version_gone",
      `Of version ${entry.version}, ${counts.live} of ${entry.live} records are still there. Read a later version.`,
      { version: entry.version },
    );
  const indexes = reader.get("meta", metaKeys.indexes)?.slice();
  store.write((writer) => {
    writer.put("meta", metaKeys.format, formatBytes("collection"));
    if (indexes !== undefined) writer.put("meta", metaKeys.indexes, indexes);
    if (history !== null) writer.put("meta", metaKeys.history, historyOf(history, entry.version));
    writeVersion(writer, entry);
    const head = {
      ...counts,
      version: entry.version,
      hash: entry.hash,
      nextOrdinal: entry.firstOrdinal + entry.opened,
      nextTransaction: 1,
      openTransaction: 0,
      sequence: 0,
      epoch: 0,
    };
    if (isOrigin) putTag(writer, head, originTag, entry);
    writeHead(writer, head);
  });
}
