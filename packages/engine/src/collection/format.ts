// Can this version of Quiver read a store?

import { QuiverError } from "@quiverdb/protocol/errors";
import { text, utf8 } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import type { Store } from "../storage/store.ts";
import type { IndexDefinitions } from "./apply.ts";
import type { CollectionDefinition } from "./definition.ts";
import { decodeHead, type Head, readHead, writeHead } from "./head.ts";
import { historyOf } from "./history.ts";
import { formatNumbers, metaKeys } from "./tables.ts";
import { rootHash, writeVersion } from "./versions.ts";

type Format = { format: number; what: "collection" | "catalog" };

/** A store, or its file. */
type Source = { get(table: string, key: Uint8Array): Uint8Array | undefined };

/**
 * Before format 3, an open transaction had its operations in a table. Without an open transaction, both formats are the same.
 */
const beforeSpools = 2;

/**
 * Call this before reading a store, or checking its file, by this version's rules.
 * @returns its format; undefined if it has none: a new store, or a damaged one
 * @throws format_too_new, format_too_old
 */
export function requireKnownFormat(source: Source, what: Format["what"]): number | undefined {
  const body = source.get("meta", metaKeys.format);
  if (body === undefined) return undefined;
  const { format } = JSON.parse(text(body)) as Format;
  requireKnown(format, what, source);
  return format;
}

/** Whether a store of this format may be opened, by this version's rules. */
export const isKnownFormat = (format: number): boolean =>
  format === formatNumbers.collection || format === beforeSpools;

function requireKnown(format: number, what: Format["what"], source: Source): void {
  const supported = formatNumbers[what];
  if (format === supported) return;
  if (what === "collection" && format === beforeSpools) {
    const head = source.get("meta", metaKeys.head);
    if (head === undefined || decodeHead(head).openTransaction === 0) return;
    throw new QuiverError(
      "format_too_old",
      `The collection has format ${format} and an open transaction, which this version of Quiver cannot read. Start the version that wrote it, and commit or abort the transaction.`,
      { found: format, supported },
    );
  }
  const isNewer = format > supported;
  throw new QuiverError(
    isNewer ? "format_too_new" : "format_too_old",
    `The ${what} has format ${format}; this version of Quiver reads format ${supported}. ${
      isNewer
        ? "Start the newer version that wrote it."
        : "Start the version that wrote it, export the collections and import them with this one."
    }`,
    { found: format, supported },
  );
}

/** Checks the format of a store. @returns it; undefined for a new store. @throws format_too_new, format_too_old */
function formatOf(store: Store, what: Format["what"]): number | undefined {
  const readTxn = store.beginRead();
  try {
    return requireKnownFormat(readTxn, what);
  } finally {
    readTxn.release();
  }
}

/** The format entry of a store of this version. */
export function formatBytes(what: Format["what"]): Uint8Array {
  return utf8(JSON.stringify({ format: formatNumbers[what], what } satisfies Format));
}

/** Makes a new store the catalog, or checks that an existing one is readable. @throws format_too_new, format_too_old */
export function prepareCatalog(store: Store): void {
  if (formatOf(store, "catalog") !== undefined) return;
  store.write((writer) => writer.put("meta", metaKeys.format, formatBytes("catalog")));
}

/**
 * Makes a new store an empty collection at version 0, or checks that an existing one is readable. The store keeps a copy of the
 * definition, so that it can be read without the catalog.
 * @param createdMs when the collection was created: the time of version 0
 * @param indexes definitions of the indexes that a new collection has
 * @throws format_too_new, format_too_old
 */
export function prepareCollection(
  store: Store,
  createdMs: number,
  definition: CollectionDefinition,
  indexes: IndexDefinitions = {},
): void {
  const copy = utf8(JSON.stringify(definition));
  const format = formatOf(store, "collection");
  if (format !== undefined) {
    if (format !== formatNumbers.collection)
      store.write((writer) => writer.put("meta", metaKeys.format, formatBytes("collection")));
    keepDefinition(store, copy);
    removeOldSpools(store);
    return;
  }
  store.write((writer) => {
    invariant(writer.get("meta", metaKeys.head) === undefined, "a store without a format has a head");
    writer.put("meta", metaKeys.format, formatBytes("collection"));
    writer.put("meta", metaKeys.definition, copy);
    if (definition.history !== undefined) writer.put("meta", metaKeys.history, historyOf(definition.history));
    if (Object.keys(indexes).length > 0) writer.put("meta", metaKeys.indexes, utf8(JSON.stringify(indexes)));
    const head: Head = {
      version: 0,
      hash: rootHash,
      nextOrdinal: 0,
      live: 0,
      dense: 0,
      sparse: 0,
      text: 0,
      nextTransaction: 1,
      openTransaction: 0,
      sequence: 0,
      epoch: 0,
    };
    writeHead(writer, head);
    writeVersion(writer, {
      version: 0,
      hash: rootHash,
      createdMs,
      live: 0,
      firstOrdinal: 0,
      opened: 0,
    });
  });
}

/** Writes the copy of the definition if the store, from an earlier version of Quiver, has none. */
function keepDefinition(store: Store, copy: Uint8Array): void {
  const readTxn = store.beginRead();
  let isThere: boolean;
  try {
    isThere = readTxn.get("meta", metaKeys.definition) !== undefined;
  } finally {
    readTxn.release();
  }
  if (!isThere) store.write((writer) => writer.put("meta", metaKeys.definition, copy));
}

/** Removes spools that a crash has left. */
function removeOldSpools(store: Store): void {
  const readTxn = store.beginRead();
  let open: number;
  try {
    open = readHead(readTxn).openTransaction;
  } finally {
    readTxn.release();
  }
  store.removeSpoolsBut(open === 0 ? null : open);
}
