// How far in a replicated log is a replica of a collection, or of the catalog?
//
//   meta.place   u53 position of the last message | 32 bytes hash
//
// The hash is over the opIds and checksums of all messages so far, in order. Replicas with the same position and different hashes have
// applied different logs.

import { fromHex, readU53, u53Key } from "../base/bytes.ts";
import { host } from "../base/host.ts";
import { invariant } from "../base/invariant.ts";
import type { Reader, Writer } from "../storage/store.ts";
import { metaKeys } from "./tables.ts";

export type Place = { readonly position: number; readonly hash: Uint8Array };

const hashBytes = 32;

/** Position 0 if there is no message yet. */
export function readPlace(reader: Reader): Place {
  const bytes = reader.get("meta", metaKeys.place);
  return bytes === undefined ? { position: 0, hash: new Uint8Array(hashBytes) } : decodePlace(bytes);
}

export function decodePlace(bytes: Uint8Array): Place {
  invariant(bytes.length === 8 + hashBytes, `a place in the log has ${bytes.length} bytes`);
  return { position: readU53(bytes), hash: bytes.slice(8) };
}

export function writePlace(writer: Writer, place: Place): void {
  writer.put("meta", metaKeys.place, encodePlace(place));
}

export function encodePlace({ position, hash }: Place): Uint8Array {
  const bytes = new Uint8Array(8 + hashBytes);
  bytes.set(u53Key(position), 0);
  bytes.set(hash, 8);
  return bytes;
}

/** The place after one more message. @param crc32 of its bytes */
export function placeAfter(before: Place, position: number, opId: string, crc32: number): Place {
  invariant(position > before.position, `message ${position} does not follow message ${before.position}`);
  const hash = host.sha256().update(before.hash).update(fromHex(opId)).update(u53Key(crc32)).digest();
  return { position, hash };
}
