// How is the catalog of an open database read and changed?
//
// It is read here, and the writer thread alone changes it. Reopening gives both a new environment, after a commit that failed.

import {
  type CatalogEntry,
  type CatalogRequest,
  readCredential,
  readCredentials,
} from "../collection/catalog.ts";
import { catalogTables } from "../collection/tables.ts";
import { catalogDirectory } from "../runtime/data-directory.ts";
import type { Writer } from "../runtime/writer.ts";
import { LmdbStore } from "../storage/lmdb.ts";
import type { Credentials } from "./contract.ts";

export class Catalog {
  readonly #directory: string;
  readonly #writer: Writer;
  #store: LmdbStore;

  constructor(dataDir: string, writer: Writer) {
    this.#directory = catalogDirectory(dataDir);
    this.#writer = writer;
    this.#store = new LmdbStore(this.#directory, catalogTables);
  }

  #read<T>(read: (readTxn: ReturnType<LmdbStore["beginRead"]>) => T): T {
    const readTxn = this.#store.beginRead();
    try {
      return read(readTxn);
    } finally {
      readTxn.release();
    }
  }

  /** @param change does it, unless the database is closing */
  credentials(change: (request: CatalogRequest) => Promise<void>): Credentials {
    return {
      get: (key) => this.#read((readTxn) => readCredential(readTxn, key)),
      entries: (prefix) => this.#read((readTxn) => readCredentials(readTxn, prefix)),
      put: (key, value) => change({ kind: "putCredential", key, value }),
      delete: (key) => change({ kind: "deleteCredential", key }),
    };
  }

  /** Stores a collection's entry durably. */
  save(entry: CatalogEntry): Promise<void> {
    return this.#writer.changeCatalog({ kind: "putCollection", entry });
  }

  async reopen(): Promise<void> {
    await this.#store.close();
    await this.#writer.closeCatalog();
    await this.#writer.openCatalog();
    this.#store = new LmdbStore(this.#directory, catalogTables);
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}
