// How are items packed into requests?

import type { ItemChunk } from "@quiverdb/import/files/inputs";
import type { Item, Position } from "@quiverdb/import/files/item";

export type Batch = {
  /** 0, 1, 2, ... in the order of the input. */
  readonly sequence: number;
  readonly file: number;
  /** Records to send. */
  readonly records: readonly Item[];
  /** Items that are rejected without being sent. */
  readonly problems: readonly Item[];
  /** Position in the input after the batch. */
  readonly end: Position;
  /** Whether reading cannot go on there, but only behind a later batch. */
  readonly isWithin: boolean;
  /** Bytes of the input read so far, for progress. */
  readonly bytesRead: number;
};

/** Bytes of `{"vectors":[` and `]}`; each record adds its text and a comma. */
const frameBytes = 16;

/** Packs items into batches of at most `recordsMax` records and `bytesMax` bytes; a larger record goes alone. */
export async function* packBatches(
  chunks: AsyncIterable<ItemChunk>,
  limits: { readonly recordsMax: number; readonly bytesMax: number },
): AsyncGenerator<Batch> {
  let sequence = 0;
  let file = 0;
  let bytesRead = 0;
  let records: Item[] = [];
  let problems: Item[] = [];
  let bytes = frameBytes;
  let last: Item | undefined;

  const take = (): Batch => {
    const { end: offset, number, lines, cursor, isWithin = false } = last as Item;
    const line = lines?.last;
    const end = {
      file,
      offset,
      number,
      ...(line !== undefined && { line }),
      ...(cursor !== undefined && { cursor }),
    };
    const batch = { sequence: sequence++, file, records, problems, end, isWithin, bytesRead };
    records = [];
    problems = [];
    bytes = frameBytes;
    return batch;
  };

  for await (const chunk of chunks) {
    // A batch never spans two files, so that its end is a position in one file.
    if (chunk.file !== file && records.length + problems.length > 0) yield take();
    file = chunk.file;
    for (const item of chunk.items) {
      const size = Buffer.byteLength(item.json) + 1;
      const full =
        records.length >= limits.recordsMax || (records.length > 0 && bytes + size > limits.bytesMax);
      if (full || problems.length >= limits.recordsMax) yield take();
      bytesRead = chunk.bytesRead;
      if (item.problem) problems.push(item);
      else {
        records.push(item);
        bytes += size;
      }
      last = item;
      // Reading goes on only behind a page, so that a batch ends there.
      if (item.cursor !== undefined) yield take();
    }
  }
  if (records.length + problems.length > 0) yield take();
}
