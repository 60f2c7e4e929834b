// What was answered to a write that carries a key, so that a repetition of it is answered alike and changes nothing?
//
//   answers[key]                u53 timeMs | 16 bytes fingerprint of the request | JSON of the answer
//   answerTimes[timeMs, key]    nothing
//
// An answer is written with the entry of its write. So neither can be there without the other, and replicas agree, whose time is that of the
// message. A refused write has no answer: it changed nothing, and its repetition is judged anew. Answers are kept for a day. Each write with a
// key removes two that are older, so that the tables shrink again.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import {
  compareBytes,
  concatenated,
  emptyBytes,
  fromHex,
  readU53,
  text,
  toHex,
  u53Key,
  utf8,
} from "../base/bytes.ts";
import { host } from "../base/host.ts";
import type { Reader, Writer } from "../storage/store.ts";
import { metaKeys } from "./tables.ts";

/** The key of a write that is done once, and what tells its request from others: 32 hex characters. */
export type Once = { readonly key: string; readonly fingerprint: string };

/** What a write is answered with. `value` is JSON. */
export type Answer = { readonly version: number; readonly value: unknown };

/** How long answers are kept, in milliseconds: a day. */
export const answerMs = 86_400_000;
const fingerprintBytes = 16;

/** What tells a request from others, of parts that are the same whenever it is sent. */
export function fingerprintOf(parts: object, batch: Uint8Array = emptyBytes): string {
  const hash = host
    .sha256()
    .update(utf8(JSON.stringify(parts)))
    .update(batch);
  return toHex(hash.digest().subarray(0, fingerprintBytes));
}

/** The answer to an earlier write with this key; undefined: there was none in the last day. @throws idempotency_key_reused */
export function answerTo(reader: Reader, { key, fingerprint }: Once, timeMs: number): Answer | undefined {
  const stored = reader.get("answers", utf8(key));
  if (stored === undefined || readU53(stored) < timeMs - answerMs) return undefined;
  const found = stored.subarray(8, 8 + fingerprintBytes);
  if (compareBytes(found, fromHex(fingerprint)) === 0)
    return JSON.parse(text(stored.subarray(8 + fingerprintBytes))) as Answer;
  throw keyReused(key);
}

export const keyReused = (key: string): QuiverError =>
  new QuiverError(
    "idempotency_key_reused",
    `The Idempotency-Key '${key.slice(0, 80)}' was used for another request within the last 24 hours; nothing was changed. Give each request a key of its own, such as a random UUID.`,
    { idempotency_key: key },
  );

/** How many answers are kept. */
export function answersKept(reader: Reader): number {
  const bytes = reader.get("meta", metaKeys.answers);
  return bytes === undefined ? 0 : readU53(bytes);
}

/** @throws too_many_idempotency_keys */
export function requireRoomForAnswer(reader: Reader, timeMs: number): void {
  if (answersKept(reader) < limits.answersMax) return;
  // There is room where the oldest one goes.
  for (const time of reader.keys("answerTimes", { limit: 1 })) if (readU53(time) < timeMs - answerMs) return;
  throw tooManyKeys("The collection", limits.answersMax);
}

export const tooManyKeys = (what: string, limit: number): QuiverError =>
  new QuiverError(
    "too_many_idempotency_keys",
    `${what} keeps the answers to ${limit} writes with an Idempotency-Key of the last 24 hours, which is the limit; nothing was changed. Send writes that can be repeated, as upserts can, without a key.`,
    { limit },
  );

/** Keeps the answer to a write, for whose key there is none. */
export function keepAnswer(writer: Writer, { key, fingerprint }: Once, timeMs: number, answer: Answer): void {
  const id = utf8(key);
  let kept = answersKept(writer);
  const forget = (time: Uint8Array) => {
    writer.delete("answerTimes", time);
    if (writer.delete("answers", time.subarray(8))) kept--;
  };
  const old = [...writer.keys("answerTimes", { end: u53Key(Math.max(0, timeMs - answerMs)), limit: 2 })];
  for (const time of old) forget(time.slice());
  // An old answer to the same key, which the two before did not include.
  const stored = writer.get("answers", id);
  if (stored !== undefined) forget(concatenated([stored.slice(0, 8), id]));
  const value = concatenated([u53Key(timeMs), fromHex(fingerprint), utf8(JSON.stringify(answer))]);
  writer.put("answers", id, value);
  writer.put("answerTimes", concatenated([u53Key(timeMs), id]), emptyBytes);
  writer.put("meta", metaKeys.answers, u53Key(kept + 1));
}
