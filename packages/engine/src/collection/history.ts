// Which earlier versions of a collection can be read, and what is kept for them?
//
// A closed record that an earlier version may still be asked for moves, in the write that closes it, from the tables of live records to
// those of past ones (`past`, `pastDense`, `pastIds`). Indexes and all reads of the current version never meet it.
//
//   readable   the current version; with a policy, every version from `oldest` on; versions with a tag
//   needed     a past record, of [born, died), with a policy if died > oldest, or if a tag names one of its versions
//
// The policy moves `oldest` on. Vacuuming follows: an operation of the log, which replicas apply alike, removes in limited steps what versions
// up to `oldest` closed, and after the removal of a tag looks at all past records. The change log is kept as far as vacuuming needs it.

import { fieldError, QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { VersionList } from "@quiverdb/protocol/shapes/version";
import { emptyBytes, readU32Key, readU53, text, toHex, utf8, writeU53 } from "../base/bytes.ts";
import { failpoint } from "../base/failpoint.ts";
import { invariant } from "../base/invariant.ts";
import type { Reader, Writer } from "../storage/store.ts";
import { type Head, readHead } from "./head.ts";
import { RecordReader } from "./record.ts";
import {
  afterPrefix,
  closedKey,
  documentKey,
  documentPrefix,
  metaKeys,
  ordinalKey,
  ordinalOfDocumentKey,
  versionKey,
} from "./tables.ts";
import { decodeVersion, encodeVersion, hashBytes, readVersion, type VersionEntry } from "./versions.ts";

/** How far back versions can be read: the latest so many, those that were current in the last seconds, all. */
export type HistoryPolicy = { readonly versions: number } | { readonly seconds: number } | "all";

export type History = {
  /** null: only the current version, and those with a tag. */
  readonly policy: HistoryPolicy | null;
  /** With a policy, the oldest readable version; without, the version up to which vacuuming removes what a policy had kept. */
  readonly oldest: number;
  /** What versions up to this one closed is removed, unless a tag needs it; of the next one, so many parts. */
  readonly vacuumed: number;
  readonly part: number;
  /** All past records from this ordinal on must be looked at; null: none. */
  readonly sweep: number | null;
  /** The newest version with a tag; -1: none. */
  readonly tagged: number;
};

export type Tag = VersionEntry & { readonly name: string };

/** Undefined if there is nothing that earlier versions need. */
export function readHistory(reader: Reader): History | undefined {
  const bytes = reader.get("meta", metaKeys.history);
  return bytes && (JSON.parse(text(bytes)) as History);
}

function writeHistory(writer: Writer, history: History): void {
  const { policy, oldest, vacuumed, sweep, tagged } = history;
  invariant(vacuumed <= oldest, `history is vacuumed up to ${vacuumed}, and reaches back to ${oldest}`);
  if (policy === null && vacuumed === oldest && sweep === null && tagged < 0)
    writer.delete("meta", metaKeys.history);
  else writer.put("meta", metaKeys.history, utf8(JSON.stringify(history)));
}

const begun = ({ version }: Head): History => ({
  policy: null,
  oldest: version,
  vacuumed: version,
  part: 0,
  sweep: null,
  tagged: -1,
});

/** What a collection has that begins with a version. */
export const historyOf = (policy: HistoryPolicy, version = 0): Uint8Array =>
  utf8(
    JSON.stringify({
      policy,
      oldest: version,
      vacuumed: version,
      part: 0,
      sweep: null,
      tagged: -1,
    } satisfies History),
  );

/** How far back versions are readable from now on. A version that was readable can be so no longer; none becomes readable. */
export function setPolicy(writer: Writer, head: Head, policy: HistoryPolicy | null): void {
  const history = readHistory(writer) ?? begun(head);
  const isNew = history.policy === null;
  if (isNew && policy === null) return;
  const oldest = isNew || policy === null ? head.version : history.oldest;
  const isVacuumed = isNew && history.vacuumed === history.oldest;
  writeHistory(writer, { ...history, policy, oldest, vacuumed: isVacuumed ? oldest : history.vacuumed });
}

/** How many versions the change log must have, since vacuuming and readers of earlier versions need them. @param kept otherwise */
export function keptOf(history: History | undefined, version: number, kept: number): number {
  if (history === undefined || (history.policy === null && history.vacuumed === history.oldest)) return kept;
  return Math.max(kept, version - history.vacuumed + 1);
}

/** The oldest version that is readable by the policy now. */
export function readableFrom(reader: Reader, head: Head, history: History, nowMs: number): number {
  const { policy, oldest } = history;
  if (policy === null) return head.version;
  if (policy === "all") return oldest;
  if ("versions" in policy) return Math.max(oldest, head.version - policy.versions + 1);
  // A version stays readable for so long after the next one has replaced it.
  let from = oldest;
  for (; from < head.version; from++) {
    const next = readVersion(reader, from + 1);
    if (next === undefined || next.createdMs > nowMs - 1_000 * policy.seconds) break;
  }
  return from;
}

/** The entry of a version, from the log or a tag. */
export const keptEntry = (reader: Reader, version: number): VersionEntry | undefined =>
  readVersion(reader, version) ?? readTags(reader).find((tag) => tag.version === version);

/**
 * The entry of a version whose records are all there.
 * @param nowMs undefined: as far as the policy was applied
 * @throws version_gone, version_not_found
 */
export function requireReadable(reader: Reader, head: Head, version: number, nowMs?: number): VersionEntry {
  if (version > head.version)
    throw new QuiverError(
      "version_not_found",
      `There is no version ${version} yet: the current one is ${head.version}.`,
      { version, current_version: head.version },
    );
  const history = readHistory(reader);
  const tags = history === undefined ? [] : readTags(reader);
  const oldest = oldestReadable(reader, head, history, nowMs);
  const entry =
    version >= oldest ? readVersion(reader, version) : tags.find((tag) => tag.version === version);
  if (entry !== undefined) return entry;
  throw new QuiverError(
    "version_gone",
    `Version ${version} can no longer be read: the oldest version that is kept is ${oldest}. ${
      history === undefined || history.policy === null
        ? "The collection keeps no history; PATCH its config.history to keep versions from now on."
        : "Its config.history says how many are kept; a tag keeps a version."
    }`,
    {
      version,
      oldest_version: oldest,
      current_version: head.version,
      tags: tags.slice(0, 100).map(({ name, version: at }) => ({ name, version: at })),
    },
  );
}

function oldestReadable(reader: Reader, head: Head, history: History | undefined, nowMs?: number): number {
  if (history === undefined || history.policy === null) return head.version;
  return nowMs === undefined ? history.oldest : readableFrom(reader, head, history, nowMs);
}

/** Which version a caller asks for: its number, its hash or the name of a tag, or the one that was current at a time. */
export type When = { readonly version?: number | string | null; readonly as_of?: string | null };

const isHash = (text: string): boolean => /^[0-9a-f]{64}$/.test(text);
const isNumber = (text: string): boolean => /^\d{1,16}$/.test(text);

/** The entry of the version that a caller asks for. @throws invalid_request, version_not_found, version_gone, tag_not_found */
export function versionAt(reader: Reader, { version, as_of: asOf }: When, nowMs: number): VersionEntry {
  const head = readHead(reader);
  const given = version ?? undefined;
  if (given !== undefined && asOf != null)
    throw fieldError("as_of", "no as_of beside version", "both", "Give version or as_of, not both.");
  const readable = (number: number) => requireReadable(reader, head, number, nowMs);
  if (asOf != null) return readable(versionAtTime(reader, head, asOf, nowMs));
  if (typeof given === "number" && Number.isSafeInteger(given) && given >= 0) return readable(given);
  if (typeof given !== "string" || given === "")
    throw fieldError(
      "version",
      "a number, a hash or a tag",
      String(given),
      `version must be the number of a version, its hash, or the name of a tag; received ${String(given).slice(0, 80)}.`,
    );
  if (isNumber(given)) return readable(Number(given));
  if (isHash(given)) return readable(numberOfHash(reader, given));
  const tag = readTag(reader, given);
  if (tag !== undefined) return tag;
  throw tagNotFound(reader, given);
}

function numberOfHash(reader: Reader, hash: string): number {
  for (const [key, value] of reader.entries("versions", { reverse: true }))
    if (toHex(value.subarray(0, hashBytes)) === hash) return readU53(key);
  const tag = readTags(reader).find((each) => toHex(each.hash) === hash);
  if (tag !== undefined) return tag.version;
  throw new QuiverError(
    "version_not_found",
    `The hash '${hash}' is not that of a version that the collection still lists. GET .../versions lists them.`,
    { version: hash },
  );
}

/** The number of the newest version that is not younger than a time. */
function versionAtTime(reader: Reader, head: Head, asOf: string, nowMs: number): number {
  const isTime = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?$/.test(asOf);
  const isZoned = /(Z|[+-]\d\d:?\d\d)$/.test(asOf) || asOf.length === 10;
  const timeMs = isTime ? Date.parse(isZoned ? asOf : `${asOf}Z`) : Number.NaN;
  if (Number.isNaN(timeMs))
    throw fieldError(
      "as_of",
      "an ISO 8601 time",
      asOf.slice(0, 80),
      `as_of must be a time such as 2026-11-27T20:15:00Z; received '${asOf.slice(0, 80)}'.`,
    );
  const notFound = (message: string) =>
    new QuiverError("version_not_found", message, { as_of: asOf, current_version: head.version });
  if (timeMs > nowMs)
    throw notFound(`as_of ${asOf} is in the future; it is ${new Date(nowMs).toISOString()}.`);
  let oldest: VersionEntry | undefined;
  for (const [key, value] of reader.entries("versions", { reverse: true })) {
    oldest = decodeVersion(readU53(key), value);
    if (oldest.createdMs <= timeMs) return oldest.version;
  }
  invariant(oldest !== undefined, "a collection has no version");
  // Earlier versions are not listed any more, but have existed.
  if (oldest.version > 0) return oldest.version - 1;
  const made = new Date(oldest.createdMs).toISOString();
  throw notFound(`as_of ${asOf} is before the collection was made, at ${made}.`);
}

/** The oldest version that is readable by the policy, and the tags, as a list of versions has them. */
export function readableVersions(
  reader: Reader,
  nowMs: number,
): Pick<VersionList, "tags" | "oldest_readable"> {
  const history = readHistory(reader);
  const tags = history === undefined ? [] : readTags(reader);
  return {
    oldest_readable: oldestReadable(reader, readHead(reader), history, nowMs),
    tags: tags.map(({ name, version, hash }) => ({ name, version, hash: toHex(hash) })),
  };
}

// ---- Tags

/** The tag of a copy at the version that it began with, so that it can be merged. */
export const originTag = "origin";

/** What a tag may be called: anything that is no number and no hash. @throws invalid_request */
export function checkTagName(name: string): void {
  const bytes = utf8(name).length;
  if (bytes >= 1 && bytes <= limits.idBytesMax && name.isWellFormed() && !isNumber(name) && !isHash(name))
    return;
  const rule = `1 to ${limits.idBytesMax} bytes of UTF-8 that are no number and no hash of a version`;
  throw fieldError("name", rule, `${bytes} bytes`, `The name of a tag has ${rule}.`);
}

export const tagNotFound = (reader: Reader, name: string): QuiverError =>
  new QuiverError("tag_not_found", `There is no tag '${name.slice(0, 80)}'. ${tagsInWords(reader)}`, {
    tag: name.slice(0, 80),
  });

function tagsInWords(reader: Reader): string {
  const names = readTags(reader).map(({ name }) => `'${name.slice(0, 80)}'`);
  if (names.length === 0) return "The collection has no tags.";
  return `There are ${names.slice(0, 10).join(", ")}${names.length > 10 ? " and others" : ""}.`;
}

/** @throws tag_already_exists; invalid_request where there are too many */
export function requireNoTag(reader: Reader, name: string): void {
  const tag = readTag(reader, name);
  if (tag !== undefined)
    throw new QuiverError(
      "tag_already_exists",
      `The tag '${name.slice(0, 80)}' exists, at version ${tag.version}. Delete it first, or choose another name.`,
      { tag: name.slice(0, 80), version: tag.version },
    );
  if (readTags(reader).length >= limits.tagsMax)
    throw fieldError(
      "name",
      `at most ${limits.tagsMax} tags`,
      "one more",
      `The collection has ${limits.tagsMax} tags, which is the limit. Delete one first.`,
    );
}

const tagKey = (name: string): Uint8Array => utf8(name);

export function readTag(reader: Reader, name: string): Tag | undefined {
  const bytes = reader.get("tags", tagKey(name));
  return bytes && decodeTag(name, bytes);
}

/** By name. */
export const readTags = (reader: Reader): Tag[] =>
  Array.from(reader.entries("tags"), ([key, value]) => decodeTag(text(key), value));

const decodeTag = (name: string, bytes: Uint8Array): Tag => ({
  name,
  ...decodeVersion(readU53(bytes), bytes.subarray(8)),
});

/** @param entry of a readable version */
export function putTag(writer: Writer, head: Head, name: string, entry: VersionEntry): void {
  const history = readHistory(writer) ?? begun(head);
  const value = new Uint8Array(64);
  writeU53(value, 0, entry.version);
  value.set(encodeVersion(entry), 8);
  writer.put("tags", tagKey(name), value);
  writeHistory(writer, { ...history, tagged: Math.max(history.tagged, entry.version) });
}

export function deleteTag(writer: Writer, name: string): void {
  const history = readHistory(writer);
  const isThere = writer.delete("tags", tagKey(name));
  invariant(isThere && history !== undefined, `the tag '${name}' does not exist`);
  const tagged = Math.max(-1, ...readTags(writer).map(({ version }) => version));
  writeHistory(writer, { ...history, tagged, sweep: 0 });
}

// ---- Past records: `past[ordinal]` = u53 died | record as it was stored

export type PastRecord = { readonly ordinal: number; readonly died: number; readonly record: Uint8Array };

const decodePast = (key: Uint8Array, value: Uint8Array): PastRecord => ({
  ordinal: readU32Key(key),
  died: readU53(value),
  record: value.subarray(8),
});

/** Whether a record that is closed now may be asked for later. */
export const isKept = (history: History | undefined, born: number): boolean =>
  history !== undefined && (history.policy !== null || born <= history.tagged);

/** Keeps a record that is being closed. @param record not borrowed from the store */
export function keepPast(writer: Writer, ordinal: number, died: number, record: Uint8Array): void {
  const { dense } = new RecordReader(record).contents;
  putPast(
    writer,
    ordinal,
    died,
    record,
    dense ? (writer.get("dense", ordinalKey(ordinal))?.slice() ?? emptyBytes) : emptyBytes,
  );
  failpoint("history:kept");
}

/** @param dense empty for none */
export function putPast(
  writer: Writer,
  ordinal: number,
  died: number,
  record: Uint8Array,
  dense: Uint8Array,
): void {
  const value = new Uint8Array(8 + record.length);
  writeU53(value, 0, died);
  value.set(record, 8);
  const key = ordinalKey(ordinal);
  writer.put("past", key, value);
  writer.put("pastIds", documentKey(new RecordReader(record).idBytes, ordinal), emptyBytes);
  if (dense.length > 0) writer.put("pastDense", key, dense);
}

function removePast(writer: Writer, { ordinal, record }: PastRecord): void {
  const key = ordinalKey(ordinal);
  const pastId = documentKey(new RecordReader(record).idBytes, ordinal);
  writer.delete("past", key);
  writer.delete("pastDense", key);
  writer.delete("pastIds", pastId);
}

/** Past records by ordinal. */
export function* pastRecords(reader: Reader, from = 0, end?: number, limit?: number): Generator<PastRecord> {
  const range = { start: ordinalKey(from), ...(end !== undefined && { end: ordinalKey(end) }) };
  for (const [key, value] of reader.entries("past", { ...range, ...(limit !== undefined && { limit }) }))
    yield decodePast(key, value);
}

export function pastRecord(reader: Reader, ordinal: number): PastRecord | undefined {
  const key = ordinalKey(ordinal);
  const value = reader.get("past", key);
  return value && decodePast(key, value);
}

/** The past records of an id, oldest first. */
export function* pastOfId(reader: Reader, id: Uint8Array): Generator<PastRecord> {
  const prefix = documentPrefix(id);
  for (const [key] of reader.entries("pastIds", { start: prefix, end: afterPrefix(prefix) })) {
    const past = pastRecord(reader, ordinalOfDocumentKey(key));
    if (past !== undefined) yield { ...past, record: past.record.slice() };
  }
}

// ---- Vacuuming

/** Ordinals, or versions, that one write looks at, about. */
const vacuumMax = 16_384;

/** Whether vacuuming would do anything. */
export function isVacuumable(reader: Reader, nowMs: number): boolean {
  const history = readHistory(reader);
  if (history === undefined) return false;
  const { policy, vacuumed, oldest, sweep } = history;
  const end = policy === null ? oldest : readableFrom(reader, readHead(reader), history, nowMs);
  return sweep !== null || vacuumed < end;
}

/** Removes some of what no readable version needs. */
export function vacuum(writer: Writer, head: Head, nowMs: number): void {
  const before = readHistory(writer);
  if (before === undefined) return;
  const oldest = before.policy === null ? before.oldest : readableFrom(writer, head, before, nowMs);
  const history: { -readonly [Field in keyof History]: History[Field] } = { ...before, oldest };
  const tags = readTags(writer);
  const isNeeded = ({ died, record }: PastRecord): boolean => {
    if (history.policy !== null && died > oldest) return true;
    const { born } = new RecordReader(record);
    return tags.some(({ version }) => born <= version && version < died);
  };
  const remove = (past: PastRecord | undefined) => {
    if (past !== undefined && !isNeeded(past)) removePast(writer, past);
  };
  let left = vacuumMax;
  while (history.vacuumed < oldest && left > 0) {
    const version = history.vacuumed + 1;
    const start = closedKey(version, history.part);
    const part = writer.entries("closed", { start, end: afterPrefix(versionKey(version)), limit: 1 });
    const [[, closed] = []] = [...part];
    if (closed === undefined) {
      history.vacuumed = version;
      history.part = 0;
      left--;
      continue;
    }
    const ordinals = new Uint32Array(closed.slice().buffer);
    for (const ordinal of ordinals) remove(pastRecord(writer, ordinal));
    history.part++;
    left -= ordinals.length;
    failpoint("vacuum:part-gone");
  }
  if (history.sweep !== null && left > 0) {
    const swept = [...pastRecords(writer, history.sweep, undefined, left)];
    for (const past of swept) remove(past);
    const last = swept.at(-1);
    history.sweep = last === undefined || swept.length < left ? null : last.ordinal + 1;
    failpoint("vacuum:swept");
  }
  writeHistory(writer, history);
}

// ---- A version's records

/** The live records of a version and the past ones that it had, by ordinal. Their bytes may be kept. */
export function* recordsAt(
  reader: Reader,
  { version, firstOrdinal, opened }: VersionEntry,
): Generator<StoredAt> {
  const end = firstOrdinal + opened;
  const past = pastRecords(reader, 0, end);
  let next = past.next();
  const pastBefore = function* (ordinal: number): Generator<StoredAt> {
    for (; !next.done && next.value.ordinal < ordinal; next = past.next()) {
      const { ordinal: at, died, record } = next.value;
      if (died > version) yield { ordinal: at, record, isPast: true };
    }
  };
  for (const [key, record] of reader.entries("records", { end: ordinalKey(end) })) {
    const ordinal = readU32Key(key);
    yield* pastBefore(ordinal);
    yield { ordinal, record, isPast: false };
  }
  yield* pastBefore(end);
}

export type StoredAt = { readonly ordinal: number; readonly record: Uint8Array; readonly isPast: boolean };

/** The vector of a record that has one. */
export function denseAt(reader: Reader, { ordinal, isPast }: StoredAt): Uint8Array {
  const dense = reader.get(isPast ? "pastDense" : "dense", ordinalKey(ordinal));
  invariant(dense !== undefined, `ordinal ${ordinal} has no dense vector`);
  return dense;
}

/** The record that an id had at a version; undefined if there was none. */
export function recordOfId(reader: Reader, id: Uint8Array, entry: VersionEntry): StoredAt | undefined {
  const end = entry.firstOrdinal + entry.opened;
  const named = reader.get("ids", id);
  const live = named && readU32Key(named);
  if (live !== undefined && live < end) {
    const record = reader.get("records", ordinalKey(live));
    return record && { ordinal: live, record: record.slice(), isPast: false };
  }
  for (const { ordinal, died, record } of pastOfId(reader, id))
    if (ordinal < end && died > entry.version) return { ordinal, record, isPast: true };
  return undefined;
}

/** The record of an ordinal, live or past; undefined if it is kept no longer. */
export function storedAt(reader: Reader, ordinal: number): StoredAt | undefined {
  const live = reader.get("records", ordinalKey(ordinal));
  if (live !== undefined) return { ordinal, record: live.slice(), isPast: false };
  const past = pastRecord(reader, ordinal);
  return past && { ordinal, record: past.record.slice(), isPast: true };
}
