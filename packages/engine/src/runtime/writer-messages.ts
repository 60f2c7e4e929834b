// What does the database call the writer thread for, and what does it tell (calls.ts)?
//
//   database -> writer   ready       is it? Then the catalog is open
//                        command     one change; batches travel as transferred buffers
//   writer -> database   committed   after each log entry: the number of its requests
//                        broken      every thread must close and reopen this store before it is usable again (null means the catalog)

import type { WriteRequest } from "../collection/accept.ts";
import type { CatalogRequest } from "../collection/catalog.ts";
import type { CollectionDefinition } from "../collection/definition.ts";

export type WriterStart = { dataDir: string; versionsKept: number };

/** Opens a collection's store, and creates it if it is missing. */
export type OpenStoreCommand = {
  to: "store";
  kind: "open";
  internalId: string;
  createdMs: number;
  definition: CollectionDefinition;
};

export type WriterCommand =
  | OpenStoreCommand
  | { to: "store"; kind: "close"; internalId: string }
  | { to: "catalogStore"; kind: "open" | "close" }
  | { to: "collection"; internalId: string; request: WriteRequest }
  | { to: "catalog"; request: CatalogRequest }
  | { to: "writer"; kind: "stop" };

/** The answer to a command. */
export type Written = { version: number; value: unknown };

export type CommittedCall = { readonly requests: number };
export type BrokenCall = { readonly internalId: string | null };
