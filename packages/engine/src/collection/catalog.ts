// Which collections are there, and where does each lie?
//
// A collection's directory is named by an internal id, never by its name. The catalog's entry decides: a
// directory without one is left over from a creation or deletion that was interrupted, and is removed at
// start.

import { text, utf8 } from "../base/bytes.ts";
import type { Reader } from "../storage/store.ts";
import type { CollectionDefinition } from "./definition.ts";

export type CatalogEntry = {
  internalId: string;
  createdMs: number;
  loaded: boolean;
  definition: CollectionDefinition;
};

/** A change of the catalog; each is one durable store write. */
export type CatalogRequest =
  | { kind: "putCollection"; entry: CatalogEntry }
  | { kind: "deleteCollection"; name: string }
  | { kind: "putCredential"; key: string; value: unknown }
  | { kind: "deleteCredential"; key: string };

/** The table, key and value of a change; no value: the key is deleted. */
export function catalogChange(request: CatalogRequest): {
  table: "collections" | "credentials";
  key: Uint8Array;
  value?: Uint8Array;
} {
  switch (request.kind) {
    case "putCollection":
      return {
        table: "collections",
        key: utf8(request.entry.definition.name),
        value: utf8(JSON.stringify(request.entry)),
      };
    case "deleteCollection":
      return { table: "collections", key: utf8(request.name) };
    case "putCredential":
      return { table: "credentials", key: utf8(request.key), value: utf8(JSON.stringify(request.value)) };
    case "deleteCredential":
      return { table: "credentials", key: utf8(request.key) };
  }
}

/** All collections, by name. */
export function readCatalog(reader: Reader): CatalogEntry[] {
  return [...reader.entries("collections")].map(([, value]) => JSON.parse(text(value)) as CatalogEntry);
}

export function readCredential(reader: Reader, key: string): unknown {
  const value = reader.get("credentials", utf8(key));
  return value && JSON.parse(text(value));
}

export function readCredentials(reader: Reader, prefix: string): [string, unknown][] {
  return [...reader.entries("credentials", { start: utf8(prefix || "\u0001") })]
    .map(([key, value]): [string, unknown] => [text(key), JSON.parse(text(value))])
    .filter(([key]) => key.startsWith(prefix));
}
