// May this version of Quiver use what lies here?

import { QuiverError } from "@quiver/protocol/errors";
import { text, utf8 } from "../base/bytes.ts";
import type { Store } from "../storage/store.ts";
import { type Head, writeHead } from "./head.ts";
import { formatNumber, metaKeys } from "./tables.ts";
import { rootHash, writeVersion } from "./versions.ts";

type Format = { format: number; what: "collection" | "catalog" };

/** Checks the format of a store, or writes it where there is none. @returns whether it was there. @throws format_too_new */
function settleFormat(store: Store, what: Format["what"]): boolean {
  const snapshot = store.snapshot();
  try {
    const bytes = snapshot.get("meta", metaKeys.format);
    if (bytes) {
      const found = JSON.parse(text(bytes)) as Format;
      if (found.format > formatNumber)
        throw new QuiverError(
          "format_too_new",
          `The ${what} has format ${found.format}; this version of Quiver reads formats up to ${formatNumber}. Start the newer version that wrote it.`,
          { found: found.format, supported: formatNumber },
        );
      return true;
    }
  } finally {
    snapshot.release();
  }
  return false;
}

/** What a store of this version says that it is. */
export function formatBytes(what: Format["what"]): Uint8Array {
  return utf8(JSON.stringify({ format: formatNumber, what } satisfies Format));
}

/** Makes a new store the catalog, or checks that it is one that can be read. @throws format_too_new */
export function prepareCatalog(store: Store): void {
  if (settleFormat(store, "catalog")) return;
  store.write((writer) => writer.put("meta", metaKeys.format, formatBytes("catalog")));
}

/** Makes a new store an empty collection at version 0, or checks that it can be read. @throws format_too_new */
export function prepareCollection(store: Store, nowMs: number): void {
  if (settleFormat(store, "collection")) return;
  store.write((writer) => {
    writer.put("meta", metaKeys.format, formatBytes("collection"));
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
    };
    writeHead(writer, head);
    writeVersion(writer, {
      version: 0,
      hash: rootHash,
      createdMs: nowMs,
      live: 0,
      firstOrdinal: 0,
      opened: 0,
    });
  });
}
