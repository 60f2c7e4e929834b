// How is a change of the catalog written in the log?
//
//   JSON { opId, change } in UTF-8 | u32 CRC-32 of it

import { crc32 } from "node:zlib";
import type { SharedChange } from "@quiverdb/engine/database/replication";
import { QuiverError } from "@quiverdb/protocol/errors";

export type CatalogMessage = { readonly opId: string; readonly change: SharedChange };

export function encodeChange(message: CatalogMessage): Uint8Array {
  const json = Buffer.from(JSON.stringify(message));
  const bytes = Buffer.alloc(json.length + 4);
  json.copy(bytes);
  bytes.writeUInt32LE(crc32(json), json.length);
  return bytes;
}

/** @param position names it in errors @throws data_corrupted */
export function decodeChange(
  bytes: Uint8Array,
  position: number,
): CatalogMessage & { readonly crc32: number } {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const json = all.subarray(0, -4);
  const checksum = crc32(json);
  if (all.length < 4 || all.readUInt32LE(json.length) !== checksum)
    throw new QuiverError(
      "data_corrupted",
      `The message ${position} of the catalog's log cannot be read (${all.length} bytes).`,
    );
  return { ...(JSON.parse(json.toString()) as CatalogMessage), crc32: checksum };
}
