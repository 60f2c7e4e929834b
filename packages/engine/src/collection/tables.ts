// Which tables does a store have, and what are their keys and values?
//
// Verification, salvage and backups follow the declarations below.

import type { Finding } from "@quiverdb/protocol/shapes/check";
import { concatenated, lenientText, readU32Key, readU53, u32Key, u53Key, utf8 } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";

/** Increased when the layout changes. A store of another format is refused. */
export const formatNumbers = { collection: 3, catalog: 1 } as const;

/** What bytes a key or a value may be, and their number if there is only one. */
type Shape = { readonly bytes?: number; readonly fits: (bytes: Uint8Array) => boolean };

const exactly = (bytes: number) => ({ bytes, fits: ({ length }: Uint8Array) => length === bytes });
const any: Shape = { fits: () => true };
const u32s: Shape = { fits: ({ length }) => length > 0 && length % 4 === 0 };

/** A key, and what it names, as fields of a finding. */
type Key = Shape & { readonly names?: (key: Uint8Array) => Partial<Finding> };

const number = exactly(8);
const ordinal = { ...exactly(4), names: (key: Uint8Array) => ({ ordinal: readU32Key(key) }) };
const id = { ...any, names: (key: Uint8Array) => ({ record_id: lenientText(key) }) };
const version = { ...exactly(8), names: (key: Uint8Array) => ({ version: readU53(key) }) };
const versionPart = { ...version, ...exactly(12) };
const document: Key = { fits: (key) => key.length >= 6 && key.length === 6 + key[0] * 256 + key[1] };

export type Table = {
  readonly key: Key;
  readonly value: Shape;
  /** Kind and message of the finding for an entry of another shape. */
  readonly kind: Finding["kind"];
  readonly misshapen: string | ((key: Uint8Array) => string);
  /** Whether a damaged value hides nothing but itself: reading it fails, and everything else stays readable (C1). */
  readonly isBearable?: boolean;
  /** Whether only a full check reads long values. */
  readonly isBulky?: boolean;
  /**
   * How a backup has it: in rows of its own (`log`), in those of the records, or not at all, because a restore derives it from the
   * records. Absent: not in a backup; of `meta` and `tags`, the header has what a restore needs.
   */
  readonly backup?: "log" | "records" | "derived";
};

const table = <
  K extends Key,
  V extends Shape,
  const M extends Pick<Table, "isBearable" | "isBulky" | "backup">,
>(
  key: K,
  value: V,
  kind: Table["kind"],
  misshapen: Table["misshapen"],
  rest?: M,
) => ({ key, value, kind, misshapen, ...(rest as M) });

const ofRecord = { isBearable: true, isBulky: true, backup: "records" } as const;
const derived = { backup: "derived" } as const;
const log = { backup: "log" } as const;
const ofHistory = { isBearable: true, isBulky: true, backup: "records" } as const;

/**
 * Tables of a collection's store. Every ordinal of `ids`, `dense` and `documents` is that of a record; which of these a record has follows
 * from its content (record-entries.ts).
 */
export const tables = {
  /**
   * `format`, `head` (head.ts), `indexes` (their definitions, JSON), `definition` (a copy of the catalog's, JSON), `recent` (the latest log
   * entries, recent-entries.ts), of a replica `place` (in the replicated log, log/ordered.ts), and, if there are any, `history` (history.ts)
   * and the number of `answers` (answers.ts).
   */
  meta: table(any, any, "collection", "A key has no name."),
  /** id of every live record -> ordinal. */
  ids: table(id, exactly(4), "id", (key) => `The id '${lenientText(key)}' has no ordinal.`, derived),
  /** id of every live record of the collection's other shards -> version that wrote it (shard.ts). */
  others: table(id, number, "id", "The version of a record of another shard cannot be read."),
  /** ordinal -> record (record.ts). A closed record is removed in the write that closes it. */
  records: table(ordinal, any, "record", "A key is no ordinal.", ofRecord),
  /** ordinal -> dense vector. */
  dense: table(ordinal, any, "record", "A key is no ordinal.", ofRecord),
  /** length and document id, ordinal -> nothing: the live records of each document. */
  documents: table(
    document,
    any,
    "document",
    "A document's key is not its length, its id and an ordinal.",
    derived,
  ),
  /** version -> version entry (versions.ts). With `closed` this is the change log. */
  versions: table(version, exactly(56), "version", "An entry of the log has the wrong length.", log),
  /** version, part -> ordinals that the version closed. */
  closed: table(versionPart, u32s, "version", "A list of closed ordinals has the wrong length.", log),
  /** sequence of a log entry -> the opIds of the entries up to it (recent-entries.ts). */
  recent: table(number, exactly(32 * 24), "collection", "A block of log entries has the wrong length."),
  /** sequence number -> transaction (transaction.ts), JSON. */
  transactions: table(number, any, "transaction", "The key of a transaction is not its number."),
  /** place of an id's first operation in the spool of the open transaction -> the place of its last one (staging.ts). */
  staged: table(number, exactly(16), "transaction", "The place of a staged operation cannot be read.", {
    isBearable: true,
  }),
  /** id -> the place of its first operation in the spool of the open transaction, and the kind of its last one. */
  stagedIds: table(id, exactly(10), "transaction", "A staged id has no place."),
  /** id -> version that must have written the record when the open transaction commits; 0: there must be none (staging.ts). */
  conditions: table(id, number, "transaction", "The condition of a staged record cannot be read."),
  /** Local to this node, and no part of the log: sequence number of a transaction -> when it was indexed (transaction.ts). */
  indexed: table(
    number,
    number,
    "transaction",
    "The time at which a transaction was indexed cannot be read.",
  ),
  /** ordinal -> when it was closed, and the record: of a closed record that an earlier version needs (history.ts). */
  past: table(
    ordinal,
    { fits: ({ length }) => length > 8 },
    "record",
    "A past record is too short.",
    ofHistory,
  ),
  /** ordinal -> dense vector of a past record. */
  pastDense: table(ordinal, any, "record", "A key is no ordinal.", ofHistory),
  /** length and id, ordinal -> nothing: the past records of each id. */
  pastIds: table(document, any, "id", "A past id's key is not its length, the id and an ordinal.", derived),
  /** version, part -> ids of the records that the version deleted, each after its length (versions.ts). */
  gone: table(
    versionPart,
    { fits: ({ length }) => length > 2 },
    "version",
    "A list of deleted ids is too short.",
    log,
  ),
  /** name -> version, and its entry. */
  tags: table(id, exactly(64), "version", "A tag has the wrong length."),
  /** key of a write -> time, fingerprint, answer (answers.ts). */
  answers: table(
    any,
    { fits: ({ length }) => length > 24 },
    "collection",
    "The answer to a write with a key is too short.",
  ),
  /** time and key of a write -> nothing. */
  answerTimes: table(
    { fits: ({ length }: Uint8Array) => length > 8 },
    any,
    "collection",
    "The time of an answer cannot be read.",
  ),
};

export type TableName = keyof typeof tables;
export const collectionTables = Object.keys(tables) as readonly TableName[];

const byName: ReadonlyMap<string, Table> = new Map(Object.entries(tables));

/** The declaration of a table; undefined for one that a store should not have. */
export const declarationOf = (name: string): Table | undefined => byName.get(name);

/** Whether an entry has the declared shape. */
export function isWellShaped(name: string, key: Uint8Array, value: Uint8Array): boolean {
  const declared = declarationOf(name);
  return declared?.key.fits(key) === true && declared.value.fits(value);
}

export type LogTable = {
  [T in TableName]: (typeof tables)[T] extends { readonly backup: "log" } ? T : never;
}[TableName];

/** The tables that a backup has in rows of their own, in their order. */
export const logTables = collectionTables.filter(
  (name): name is LogTable => declarationOf(name)?.backup === "log",
);

/** Tables of the catalog's store. */
export const catalogTables = [
  /** `format`. */
  "meta",
  /** name -> collection entry, JSON (catalog.ts). */
  "collections",
  /** key -> JSON: the server's data about keys and sessions. */
  "credentials",
] as const;

export const metaKeys = {
  format: utf8("format"),
  head: utf8("head"),
  indexes: utf8("indexes"),
  definition: utf8("definition"),
  recent: utf8("recent"),
  place: utf8("place"),
  history: utf8("history"),
  answers: utf8("answers"),
} as const;

export const ordinalKey = u32Key;
export const versionKey = u53Key;

/** Prefix of a document's keys: the length of its id, then the id, so that no id is a prefix of another. */
export function documentPrefix(documentId: Uint8Array): Uint8Array {
  invariant(
    documentId.length > 0 && documentId.length <= 0xffff,
    () => `the id of a document has ${documentId.length} bytes`,
  );
  const key = new Uint8Array(2 + documentId.length);
  key[0] = documentId.length >>> 8;
  key[1] = documentId.length;
  key.set(documentId, 2);
  return key;
}

export function documentKey(documentId: Uint8Array, ordinal: number): Uint8Array {
  return concatenated([documentPrefix(documentId), u32Key(ordinal)]);
}

/** The ordinal in a key of `documents`, which follows the prefix. */
export const ordinalOfDocumentKey = (key: Uint8Array): number => readU32Key(key, key.length - 4);

/** The first key after all keys that begin with `prefix`; undefined if there is none. */
export function afterPrefix(prefix: Uint8Array): Uint8Array | undefined {
  const end = prefix.slice();
  for (let i = end.length - 1; i >= 0; i--) {
    if (end[i] < 255) {
      end[i]++;
      return end.slice(0, i + 1);
    }
  }
  return undefined;
}

export function closedKey(version: number, part: number): Uint8Array {
  invariant(part >>> 0 === part, () => `version ${version} closes ordinals in part ${part}`);
  const key = new Uint8Array(12);
  key.set(u53Key(version), 0);
  key.set(u32Key(part), 8);
  return key;
}
