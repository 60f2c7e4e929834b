// How is a message of a replicated log written as bytes?
//
//   message   u8 form (1) | u53 epoch | u53 timeMs | 16 bytes opId | u32 requests | request ... | u32 CRC-32 of what is before
//   request   text32 JSON of the request without its batch | bytes32 batch
//
// `32` means: preceded by a length of 32 bits. Numbers are little-endian, except that 53-bit numbers are written like keys (big-endian).
// The id of a patched record is a text in JSON. The position of a message is the log's, and not in its bytes.
//
// A program with a further kind of request, or another layout, writes a greater form. Programs that do not know it stop there, and go on when
// they are updated: so nodes are updated one by one.

import { QuiverError } from "@quiverdb/protocol/errors";
import { ByteWriter, emptyBytes, fromHex, readU53, text, toHex, u53Key, utf8 } from "../base/bytes.ts";
import { host } from "../base/host.ts";
import { invariant } from "../base/invariant.ts";
import type { LoggedRequest } from "../collection/accept.ts";
import { opIdBytes } from "../collection/recent-entries.ts";
import type { OrderedMessage } from "./ordered.ts";

export type Message = Omit<OrderedMessage, "position" | "crc32">;

const form = 1;

/** The message as bytes. */
export function encodeMessage({ epoch, timeMs, opId, requests }: Message): Uint8Array<ArrayBuffer> {
  const out = new ByteWriter(1024);
  out.u8(form);
  for (const number of [epoch, timeMs]) {
    invariant(Number.isSafeInteger(number) && number >= 0, `a message has the number ${number}`);
    out.bytes(u53Key(number));
  }
  const id = fromHex(opId);
  invariant(id.length === opIdBytes, `a message has the opId '${opId}'`);
  out.bytes(id);
  out.u32(requests.length);
  for (const request of requests) writeRequest(out, request);
  out.u32(0);
  const bytes = out.take();
  const end = bytes.length - 4;
  new DataView(bytes.buffer, bytes.byteOffset).setUint32(end, host.crc32(bytes.subarray(0, end)), true);
  return bytes;
}

function writeRequest(out: ByteWriter, request: LoggedRequest): void {
  const { batch = emptyBytes, ...rest } = request as LoggedRequest & { batch?: Uint8Array };
  out.text32(JSON.stringify(rest.kind === "patch" ? { ...rest, id: text(rest.id) } : rest));
  out.u32(batch.length);
  out.bytes(batch);
}

/** Decodes a message; its batches are views on the bytes. @throws data_corrupted; format_too_new for a greater form */
export function decodeMessage(bytes: Uint8Array): Omit<OrderedMessage, "position"> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = bytes.length - 4;
  let at = 0;
  const take = (length: number): Uint8Array => {
    if (at + length > end) throw unreadable(bytes.length, at);
    at += length;
    return bytes.subarray(at - length, at);
  };
  const u32 = (): number => view.getUint32(take(4).byteOffset - bytes.byteOffset, true);
  const crc32 = end < 0 ? 0 : host.crc32(bytes.subarray(0, end));
  if (end < 0 || view.getUint32(end, true) !== crc32) throw unreadable(bytes.length, end);
  const [given] = take(1);
  if (given > form) throw messageTooNew(given, form);
  if (given !== form) throw unreadable(bytes.length, 0);
  const [epoch, timeMs] = [readU53(take(8)), readU53(take(8))];
  const opId = toHex(take(opIdBytes));
  const requests = Array.from({ length: u32() }, () => readRequest(take(u32()), take(u32())));
  if (at !== end) throw unreadable(bytes.length, at);
  return { epoch, timeMs, opId, crc32, requests };
}

function readRequest(json: Uint8Array, batch: Uint8Array): LoggedRequest {
  const request = JSON.parse(text(json));
  if (request.kind === "patch") return { ...request, id: utf8(request.id) };
  return batchKinds.includes(request.kind) ? { ...request, batch } : request;
}

const batchKinds: readonly string[] = [
  "upsert",
  "delete",
  "stage",
  "deleteMatching",
  "updateMatching",
  "change",
] satisfies LoggedRequest["kind"][];

/** @param form that the message has @param known the greatest that this program knows */
export const messageTooNew = (form: number, known: number): QuiverError =>
  new QuiverError(
    "format_too_new",
    `A message of the log has the form ${form}, and this program knows forms up to ${known}. Update this node; it goes on from there.`,
    { form, known },
  );

const unreadable = (length: number, position: number): QuiverError =>
  new QuiverError(
    "data_corrupted",
    `The ${length} bytes of a message of the log cannot be read at position ${Math.max(0, position)}. Fetch the message again.`,
    { position: Math.max(0, position) },
  );
