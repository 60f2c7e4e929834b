// How is the catalog of an open database read and changed?
//
// It is read here, and the writer thread alone changes it. Reopening gives both a new environment, after a commit that failed.

import { mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { QuiverError } from "@quiverdb/protocol/errors";
import { failpoint } from "../base/failpoint.ts";
import type { Once } from "../collection/answers.ts";
import {
  aliasPrefix,
  type CatalogAnswer,
  type CatalogEntry,
  type CatalogRequest,
  catalogAnswerTo,
  readCredential,
  readCredentials,
} from "../collection/definition.ts";
import { prepareCatalog } from "../collection/format.ts";
import { type Place, readPlace } from "../collection/place.ts";
import { catalogTables } from "../collection/tables.ts";
import { catalogDirectory, syncDirectory, syncStore } from "../process/data-directory.ts";
import type { Writer } from "../runtime/writer.ts";
import { LmdbStore } from "../storage/lmdb.ts";
import type { Credentials } from "./contract.ts";
import type { SharedChange } from "./replication.ts";

export type CredentialChange = Extract<SharedChange, { key: string }>;

export class Catalog {
  readonly #directory: string;
  readonly #writer: Writer;
  #store: LmdbStore;
  /** Who wants to know of changes of credentials. */
  readonly #told: ((key: string, value: unknown) => unknown)[] = [];

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

  /**
   * @param change makes a change, on all nodes of a cluster, unless the database is closing
   * @param note makes one here alone
   */
  credentials(
    change: (change: CredentialChange) => Promise<void>,
    note: (request: CatalogRequest) => Promise<void>,
  ): Credentials {
    const get = (key: string) => this.credential(key);
    return {
      get,
      entries: (prefix) => this.credentialsOf(prefix),
      put: (key, value) => change({ kind: "putCredential", key, value }),
      async putFirst(key, value) {
        await change({ kind: "putCredential", key, value, isFirst: true });
        return get(key);
      },
      note: (key, value) => note({ kind: "putCredential", key, value, isNote: true }),
      delete: (key) => change({ kind: "deleteCredential", key }),
      onChange: (told) => {
        this.#told.push(told);
      },
    };
  }

  credential(key: string): unknown {
    return this.#read((readTxn) => readCredential(readTxn, key));
  }

  credentialsOf(prefix: string): [key: string, value: unknown][] {
    return this.#read((readTxn) => readCredentials(readTxn, prefix));
  }

  /** Makes a change of credentials here. */
  async applyCredential(change: CredentialChange): Promise<void> {
    if (change.kind === "putCredential") {
      const { key, value, isFirst } = change;
      if (isFirst && this.credential(key) !== undefined) return;
      await this.#writer.changeCatalog({ kind: "putCredential", key, value });
    } else await this.#writer.changeCatalog({ kind: "deleteCredential", key: change.key });
    const value = change.kind === "putCredential" ? change.value : undefined;
    for (const told of this.#told) await told(change.key, value);
  }

  /** @throws idempotency_key_reused, too_many_idempotency_keys */
  answerTo(once: Once, nowMs: number): { readonly value: unknown } | undefined {
    return this.#read((readTxn) => catalogAnswerTo(readTxn, once, nowMs));
  }

  /** Stores which collection an alias is another name of; undefined: none. */
  saveAlias(alias: string, collection: string | undefined, answer?: CatalogAnswer): Promise<void> {
    const key = aliasPrefix + alias;
    return this.#writer.changeCatalog(
      collection === undefined
        ? { kind: "deleteCredential", key, answer }
        : { kind: "putCredential", key, value: collection, answer },
    );
  }

  /** Collections by their aliases. */
  get aliases(): Map<string, string> {
    return new Map(
      this.credentialsOf(aliasPrefix).map(([key, name]) => [key.slice(aliasPrefix.length), name as string]),
    );
  }

  /** How far in a replicated log it is. */
  get place(): Place {
    return this.#read((readTxn) => readPlace(readTxn));
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

/** @param advice what to do */
export function alreadyExists(name: string, advice: string): QuiverError {
  return new QuiverError(
    "collection_already_exists",
    `A collection named '${name}' already exists. ${advice}`,
    {
      name,
    },
  );
}

/**
 * Creates an empty catalog durably, if there is none. LMDB creates a store in several commits, one for each table; after a power loss, an
 * incomplete catalog would look like a damaged one. So the catalog is created under another name, synced and then renamed: a catalog that
 * exists is complete.
 * @throws storage_failed, storage_full
 */
export async function makeCatalog(dataDir: string): Promise<void> {
  const making = `${catalogDirectory(dataDir)}.new`;
  rmSync(making, { recursive: true, force: true });
  mkdirSync(making, { mode: 0o700 });
  const store = new LmdbStore(making, catalogTables);
  try {
    prepareCatalog(store);
  } finally {
    await store.close();
  }
  rmSync(join(making, "lock.mdb"), { force: true });
  syncStore(making);
  failpoint("open:catalog-made");
  renameSync(making, catalogDirectory(dataDir));
  syncDirectory(dataDir);
}
