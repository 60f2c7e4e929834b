// Which collections exist, and in which directory is each?
//
// The directory of a collection has an internal id for its name, never the collection's name. A collection exists if the catalog has an
// entry for it. A directory without an entry is left over from an interrupted creation or deletion, and the next start removes it.

import { text, utf8 } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
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

/** The table, key and value of a change. Without a value, the key is deleted. */
export function catalogChange(request: CatalogRequest): {
  table: "collections" | "credentials";
  key: Uint8Array;
  value?: Uint8Array;
} {
  switch (request.kind) {
    case "putCollection":
      invariant(
        /^[0-9a-z-]+$/i.test(request.entry.internalId),
        `the collection '${request.entry.definition.name}' has the internal id '${request.entry.internalId}'`,
      );
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

export function readCredential(reader: Reader, key: string): unknown {
  const value = reader.get("credentials", utf8(key));
  return value && JSON.parse(text(value));
}

export function readCredentials(reader: Reader, prefix: string): [string, unknown][] {
  return [...reader.entries("credentials", { start: utf8(prefix || "\u0001") })]
    .map(([key, value]): [string, unknown] => [text(key), JSON.parse(text(value))])
    .filter(([key]) => key.startsWith(prefix));
}
