// How is a record closed that cannot be read?
//
// Its id is known, and its ordinal; what else it was is lost with it. So its place among documents is searched for, and the counts
// of the head are made anew from the records that can be read. That takes time in proportion to the collection, for the sake of
// data that is whole again afterwards (C1).

import { isQuiverError } from "@quiver/protocol/errors";
import { readU32Key } from "../base/bytes.ts";
import type { Writer } from "../storage/store.ts";
import type { Head } from "./head.ts";
import { RecordReader } from "./record.ts";
import { ordinalKey } from "./tables.ts";

/** Removes a record whose stored form is damaged, but for its id, and corrects the head's counts. */
export function closeDamaged(writer: Writer, head: Head, ordinal: number): void {
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

/** Of other damaged records it is not known what they had: they count as far as the head's numbers leave room for them. */
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
  head.sparse = counts.sparse + Math.min(damaged, Math.max(0, head.sparse - counts.sparse));
  head.text = counts.text + Math.min(damaged, Math.max(0, head.text - counts.text));
}
