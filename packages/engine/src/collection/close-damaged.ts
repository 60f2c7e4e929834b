// How does a change close a record that is unreadable?
//
// Only the id and the ordinal of such a record are known. So the code searches for its entry in the table of documents, and counts
// the readable records again for the head. This takes time in proportion to the collection, but leaves it without damage (C1).

import { isQuiverError } from "@quiverdb/protocol/errors";
import { readU32Key } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import type { Writer } from "../storage/store.ts";
import type { Head } from "./head.ts";
import { RecordReader } from "./record-reader.ts";
import { ordinalKey } from "./tables.ts";

/** Removes everything of a damaged record except its id, and corrects the counts of the head. */
export function closeDamaged(writer: Writer, head: Head, ordinal: number): void {
  invariant(head.live > 0, `ordinal ${ordinal} is closed, and the head counts ${head.live} live records`);
  const key = ordinalKey(ordinal);
  writer.delete("records", key);
  if (writer.delete("dense", key)) head.dense--;
  for (const document of writer.keys("documents"))
    if (readU32Key(document, document.length - 4) === ordinal) {
      writer.delete("documents", document);
      break;
    }
  head.live--;
  recount(writer, head);
}

/** Counts sparse vectors and texts. Other damaged records may have had them: they count, up to the numbers that the head had before. */
function recount(writer: Writer, head: Head): void {
  const counts = { sparse: 0, text: 0 };
  let damaged = 0;
  for (const key of writer.keys("records")) {
    try {
      const { sparse, text } = new RecordReader(writer.get("records", key) as Uint8Array).contents;
      if (sparse) counts.sparse++;
      if (text) counts.text++;
    } catch (error) {
      if (!isQuiverError(error, "data_corrupted")) throw error;
      damaged++;
    }
  }
  invariant(counts.sparse <= head.live + 1, `${counts.sparse} sparse vectors of ${head.live} live records`);
  head.sparse = counts.sparse + Math.min(damaged, Math.max(0, head.sparse - counts.sparse));
  head.text = counts.text + Math.min(damaged, Math.max(0, head.text - counts.text));
}
