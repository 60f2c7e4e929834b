// Could Quiver have written this record, whose checksum is right?

import type { CollectionDefinition } from "./definition.ts";
import { has, RecordReader } from "./record.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** What is wrong with a stored record, as words that follow "the record"; undefined if it is valid. */
export function recordProblem(
  stored: Uint8Array,
  definition: CollectionDefinition | undefined,
): string | undefined {
  const view = new DataView(stored.buffer, stored.byteOffset, stored.byteLength);
  let at = 10;
  const take = (length: number) => {
    at += length;
    return stored.subarray(at - length, at);
  };
  const isText = (bytes: Uint8Array) => {
    try {
      utf8.decode(bytes);
      return true;
    } catch {
      // The decoder throws only for bytes that are not UTF-8.
      return false;
    }
  };
  try {
    const id = take(view.getUint16(8, true));
    if (id.length === 0 || !isText(id)) return "has no id in UTF-8";
    const flags = view.getUint8(at++);
    if (flags > 63) return `has the flags ${flags}, which do not exist`;
    if (flags & has.document && !isText(take(2 + view.getUint16(at, true)).subarray(2)))
      return "has a document id that is not UTF-8";
    if (flags & (has.rawText | has.processedText) && !isText(take(4 + view.getUint32(at, true)).subarray(4)))
      return "has a text that is not UTF-8";
    if (flags & has.metadata) JSON.parse(utf8.decode(take(4 + view.getUint32(at, true)).subarray(4)));
    if (flags & has.sparse) take(4 + 8 * view.getUint32(at, true));
    if (at !== stored.length) return `has ${stored.length} bytes, its parts ${at}`;
    return contentProblem(flags, stored, definition);
  } catch (error) {
    return `cannot be read: ${(error as Error).message}`;
  }
}

function contentProblem(
  flags: number,
  stored: Uint8Array,
  definition: CollectionDefinition | undefined,
): string | undefined {
  const sparse = new RecordReader(stored).sparse;
  for (let i = 0; sparse !== null && i < sparse.indices.length; i++) {
    if (i > 0 && sparse.indices[i] <= sparse.indices[i - 1]) return "has sparse indices that do not ascend";
    if (!Number.isFinite(sparse.values[i])) return `has the sparse value ${sparse.values[i]}`;
  }
  if (definition === undefined) return undefined;
  const kinds = [
    [has.dense, definition.dense, "a dense vector"],
    [has.sparse, definition.sparse, "a sparse vector"],
    [has.rawText, definition.text || definition.storeRawText, "a text"],
    [has.processedText, definition.text, "a text"],
  ] as const;
  for (const [flag, isEnabled, word] of kinds)
    if (flags & flag && !isEnabled) return `has ${word}, which its collection does not take`;
  return undefined;
}
