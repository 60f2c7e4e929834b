// How are a change and a state of the catalog written in its log?
//
//   change   line end | JSON in UTF-8 | u32 CRC-32 of both
//   state    the same, deflated: thousands of collections and sessions fit into one message
//
// A message that begins with `{` stands for a large one (publisher.ts). "form" in the JSON is as that of other messages (engine/log/message.ts): a
// program with a further kind of change writes a greater one.

import { crc32, deflateSync, inflateSync } from "node:zlib";
import {
  type CatalogEntry,
  type CatalogState,
  messageTooNew,
  type SharedChange,
} from "@quiverdb/engine/database/replication";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";

export const encodeState = (state: CatalogState): Uint8Array =>
  deflateSync(encode(state, state.entries.some(hasShards)));
/** @throws data_corrupted */
export function decodeState(bytes: Uint8Array, position: number): CatalogState {
  try {
    return decode<CatalogState>(inflateSync(bytes), position);
  } catch (error) {
    throw isQuiverError(error) ? error : unreadable(position, bytes.length);
  }
}

/** The greatest form that is known: 1, or 2 of what has shards. */
const form = 2;

const hasShards = ({ definition }: CatalogEntry): boolean => definition.shard !== undefined;

export type CatalogMessage = { readonly opId: string; readonly change: SharedChange };

export const encodeChange = (message: CatalogMessage): Uint8Array =>
  encode(message, "entry" in message.change && hasShards(message.change.entry));
/** @throws data_corrupted */
export const decodeChange = (bytes: Uint8Array, position: number) => decode<CatalogMessage>(bytes, position);

function encode(message: object, isOfShards: boolean): Uint8Array {
  const json = Buffer.from(`\n${JSON.stringify({ form: isOfShards ? 2 : 1, ...message })}`);
  const bytes = Buffer.alloc(json.length + 4);
  json.copy(bytes);
  bytes.writeUInt32LE(crc32(json), json.length);
  return bytes;
}

/** @param position names it in errors */
function decode<M>(bytes: Uint8Array, position: number): M & { readonly crc32: number } {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const json = all.subarray(0, -4);
  const checksum = crc32(json);
  if (all.length < 4 || all.readUInt32LE(json.length) !== checksum) throw unreadable(position, all.length);
  const { form: given, ...message } = JSON.parse(json.toString()) as M & { form: number };
  if (given > form) throw messageTooNew(given, form);
  return { ...(message as unknown as M), crc32: checksum };
}

const unreadable = (position: number, length: number): QuiverError =>
  new QuiverError(
    "data_corrupted",
    `The message ${position} of the catalog's log cannot be read (${length} bytes).`,
  );
