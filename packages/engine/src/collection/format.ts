// Can this version of Quiver read a store?

import { QuiverError } from "@quiver/protocol/errors";
import { text, utf8 } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import { payloadOf, type Store } from "../storage/store.ts";
import type { CollectionDefinition } from "./definition.ts";
import { type Head, writeHead } from "./head.ts";
import { formatNumbers, metaKeys } from "./tables.ts";
import { rootHash, writeVersion } from "./versions.ts";

type Format = { format: number; what: "collection" | "catalog" };

/** A store's file, read without the store: values have their checksum trailers. */
type StoreFile = { get(table: string, key: Uint8Array): Uint8Array | undefined };

/** Call this before checking a store's file by this version's rules. @throws format_too_new, format_too_old */
export function requireKnownFormat(file: StoreFile, what: Format["what"]): void {
  const stored = file.get("meta", metaKeys.format);
  const body = stored && payloadOf("meta", metaKeys.format, stored);
  if (body !== undefined) requireKnown(JSON.parse(text(body)) as Format, what);
}

function requireKnown({ format }: Format, what: Format["what"]): void {
  const supported = formatNumbers[what];
  if (format === supported) return;
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

/** Checks the format of a store, or writes it to a new store. @returns whether the store had one @throws format_too_new, format_too_old */
function settleFormat(store: Store, what: Format["what"]): boolean {
  const readTxn = store.beginRead();
  try {
    const bytes = readTxn.get("meta", metaKeys.format);
    if (bytes) {
      requireKnown(JSON.parse(text(bytes)) as Format, what);
      return true;
    }
  } finally {
    readTxn.release();
  }
  return false;
}

/** The format entry of a store of this version. */
export function formatBytes(what: Format["what"]): Uint8Array {
  return utf8(JSON.stringify({ format: formatNumbers[what], what } satisfies Format));
}

/** Makes a new store the catalog, or checks that an existing one is readable. @throws format_too_new, format_too_old */
export function prepareCatalog(store: Store): void {
  if (settleFormat(store, "catalog")) return;
  store.write((writer) => writer.put("meta", metaKeys.format, formatBytes("catalog")));
}

/**
 * Makes a new store an empty collection at version 0, or checks that an existing one is readable. The store keeps a copy of the
 * definition, so that it can be read without the catalog.
 * @param createdMs when the collection was created: the time of version 0
 * @throws format_too_new, format_too_old
 */
export function prepareCollection(store: Store, createdMs: number, definition: CollectionDefinition): void {
  const copy = utf8(JSON.stringify(definition));
  if (settleFormat(store, "collection")) {
    keepDefinition(store, copy);
    return;
  }
  store.write((writer) => {
    invariant(writer.get("meta", metaKeys.head) === undefined, "a store without a format has a head");
    writer.put("meta", metaKeys.format, formatBytes("collection"));
    writer.put("meta", metaKeys.definition, copy);
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
