// Which tables does a store have, and what are their keys?

import { u32Key, u53Key, utf8 } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";

/** Increased when the layout changes. A store of another format is refused. */
export const formatNumbers = { collection: 3, catalog: 1 } as const;

/** Tables of a collection's store. */
export const collectionTables = [
  /**
   * `format`, `head` (head.ts), `indexes` (their definitions, JSON), `definition` (a copy of the catalog's, JSON) and `recent` (the
   * latest log entries, recent-entries.ts).
   */
  "meta",
  /** id of every live record -> ordinal. */
  "ids",
  /** ordinal -> record (record.ts). A closed record is removed in the write that closes it. */
  "records",
  /** ordinal -> dense vector. */
  "dense",
  /** length and document id, ordinal -> nothing: the live records of each document. */
  "documents",
  /** version -> version entry (versions.ts). With `closed` this is the change log. */
  "versions",
  /** version, part -> ordinals that the version closed. */
  "closed",
  /** sequence of a log entry -> the opIds of the entries up to it (recent-entries.ts). */
  "recent",
  /** sequence number -> transaction (transaction.ts), JSON. */
  "transactions",
  /** place of an id's first operation in the spool of the open transaction -> the place of its last one (staging.ts). */
  "staged",
  /** id -> the place of its first operation in the spool of the open transaction, and the kind of its last one. */
  "stagedIds",
  /** Local to this node, and no part of the log: sequence number of a transaction -> when it was indexed (transaction.ts). */
  "indexed",
] as const;

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
  const prefix = documentPrefix(documentId);
  const key = new Uint8Array(prefix.length + 4);
  key.set(prefix, 0);
  key.set(u32Key(ordinal), prefix.length);
  return key;
}

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
