// What does the header of a backup file say, and do several files form a chain?

import type { BackupHeading } from "@quiverdb/protocol/backup-format";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { toHex, utf8 } from "../../base/bytes.ts";
import type { IndexDefinitions } from "../../collection/apply.ts";
import type { CollectionDefinition } from "../../collection/definition.ts";
import type { Head } from "../../collection/head.ts";
import type { History } from "../../collection/history.ts";
import { invalidSnapshot, parseJson } from "./block-file.ts";

/** The first block of a backup file, as JSON. */
export type BackupHeader = BackupHeading & {
  readonly collection: CollectionDefinition;
  readonly indexes: IndexDefinitions;
  /** The next unused ordinal. */
  readonly next_ordinal: number;
  /** The next unused ordinal at version `since`; 0 in a full backup. */
  readonly first_ordinal: number;
  /** Live vectors with each kind of content. */
  readonly dense: number;
  readonly sparse: number;
  readonly text: number;
  readonly next_transaction: number;
  /** The last log entry and its epoch, where the log continues after a restore. Files of earlier versions lack them: 0. */
  readonly sequence?: number;
  readonly epoch?: number;
  /** What earlier versions are readable, and the tags (name, and the stored entry in hex); absent if there are none. */
  readonly history?: { readonly state: History; readonly tags: readonly (readonly [string, string])[] };
};

/** The header for a backup of a snapshot of the store. */
export function headerOf(
  collection: CollectionDefinition,
  indexes: IndexDefinitions,
  head: Head,
  since: { version: number; hash: Uint8Array; ordinalEnd: number } | null,
  createdMs: number,
  history?: BackupHeader["history"],
): BackupHeader {
  return {
    collection,
    indexes,
    version: head.version,
    hash: toHex(head.hash),
    since: since && { version: since.version, hash: toHex(since.hash) },
    first_ordinal: since?.ordinalEnd ?? 0,
    next_ordinal: head.nextOrdinal,
    live: head.live,
    dense: head.dense,
    sparse: head.sparse,
    text: head.text,
    next_transaction: head.nextTransaction,
    sequence: head.sequence,
    epoch: head.epoch,
    created_ms: createdMs,
    ...(history && { history }),
  };
}

export const headerBytes = (header: BackupHeader): Uint8Array => utf8(JSON.stringify(header));

const isHash = (value: unknown): boolean => typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
const isCount = (value: unknown, max: number): boolean =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= max;

const isHistory = (history: BackupHeader["history"], version: number): boolean =>
  history === undefined ||
  (isCount(history.state?.oldest, version) &&
    isCount(history.state?.vacuumed, history.state.oldest) &&
    Array.isArray(history.tags) &&
    history.tags.every(([name, entry]) => typeof name === "string" && /^[0-9a-f]{128}$/.test(entry)));

/** Reads a header and checks its numbers; its definitions are checked by backup-definitions.ts. @throws invalid_snapshot */
export function readHeader(bytes: Uint8Array, position: number): BackupHeader {
  const header = parseJson<BackupHeader>(bytes, position);
  const { since, version, live } = header;
  const max = Number.MAX_SAFE_INTEGER;
  const isPossible =
    typeof header.collection?.name === "string" &&
    typeof header.indexes === "object" &&
    isHash(header.hash) &&
    isCount(version, max) &&
    isCount(header.next_ordinal, limits.ordinalMax) &&
    isCount(header.first_ordinal, header.next_ordinal) &&
    isCount(live, header.next_ordinal) &&
    [header.dense, header.sparse, header.text].every((count) => isCount(count, live)) &&
    isCount(header.next_transaction, max) &&
    isCount(header.sequence ?? 0, max) &&
    isCount(header.epoch ?? 0, max) &&
    isCount(header.created_ms, max) &&
    isHistory(header.history, version) &&
    (since === null ? header.first_ordinal === 0 : isHash(since?.hash) && isCount(since?.version, version));
  if (!isPossible) throw invalidSnapshot("damaged", position, "has a header that cannot be");
  return header;
}

/**
 * Checks that files, in the given order, form a chain: a full backup, then incremental ones that each continue the previous version.
 * @throws snapshot_chain_broken
 */
export function checkChain(headers: readonly BackupHeader[]): void {
  const broken = (i: number, why: string) =>
    new QuiverError("snapshot_chain_broken", `snapshots[${i}] ${why} Nothing was changed.`, {
      path: `snapshots[${i}]`,
    });
  for (const [i, { since, first_ordinal }] of headers.entries()) {
    if (i === 0) {
      if (since !== null)
        throw broken(
          0,
          `contains only the changes since version ${since.version}; put the full backup first.`,
        );
      continue;
    }
    const { version, hash, next_ordinal } = headers[i - 1];
    if (since === null) throw broken(i, "is a full backup; a chain has one, as the first.");
    if (since.version !== version)
      throw broken(i, `is based on version ${since.version}, but the file before it has version ${version}.`);
    if (since.hash !== hash || first_ordinal !== next_ordinal)
      throw broken(
        i,
        `is based on a different version ${version} than that of the file before it: their hashes differ.`,
      );
  }
}
