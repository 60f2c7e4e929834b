// How are the intact parts of a damaged data directory saved?
//
// For a user whose server does not serve a collection any more because its store is damaged, and who has no newer backup.
//
// They are copied to a new directory. The source is read as `quiver check` reads it and is not changed. The new directory gets every
// collection whose definition is intact, with its intact records and its index definitions (the first start builds the indexes), the
// keys and sessions, the intact snapshots, and the audit log. Versions start again at 1. Every record and snapshot that is lost is
// reported.
//
// The records are written as new ones, in the order of their ordinals, and not as a backup that is then restored. Of two intact records
// with one id, of which only the later may be live, the later one replaces the other; a restore refuses such a file. A backup begins with
// its number of records and the hash of its version, so a failing disk would be read twice, and the file would need room beside the store.

import "../../process/node-host.ts";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  realpathSync,
} from "node:fs";
import { join } from "node:path";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { Snapshot } from "@quiverdb/protocol/shapes/snapshot";
import type { LoggedRequest } from "../../collection/accept.ts";
import type { IndexDefinitions } from "../../collection/apply.ts";
import { type CatalogEntry, type CatalogRequest, catalogChange } from "../../collection/definition.ts";
import { prepareCatalog, prepareCollection } from "../../collection/format.ts";
import { type Loss, Salvage } from "../../collection/salvage.ts";
import { catalogTables, collectionTables } from "../../collection/tables.ts";
import { verifyCatalog } from "../../collection/verify-catalog.ts";
import { LocalSequencer, randomOpId } from "../../log/sequencer.ts";
import {
  catalogDirectory,
  collectionDirectory,
  collectionsDirectory,
  snapshotsDirectory,
  syncDirectory,
  syncFile,
  takeDataDirectory,
} from "../../process/data-directory.ts";
import { lockForReading } from "../../process/directory-lock.ts";
import { LmdbStore } from "../../storage/lmdb.ts";
import { SnapshotDirectory } from "../snapshots/snapshot-directory.ts";
import { difference, problemWords, snapshotOf } from "../snapshots/snapshot-entry.ts";
import { type Place, placesOf } from "./directory.ts";

export type RepairOptions = {
  /** Called for everything that is lost. */
  onLoss?(loss: Loss): void;
  /** Called now and then with the number of records copied of a collection. */
  onProgress?(collection: string, records: number): void;
  clock?: () => number;
};

export type Repaired = {
  readonly collections: readonly {
    readonly name: string;
    readonly records: number;
    readonly lost: number;
    readonly indexes: readonly string[];
  }[];
  /** Keys and sessions of the server. */
  readonly credentials: number;
  /** Snapshots copied. */
  readonly snapshots: number;
};

/** Files of the server: the key that it made, and its audit log. */
const serverFile = /^(admin-key|audit\.log(\.\d+)?)$/;

/**
 * Copies the intact parts of a data directory.
 * @param into an empty directory, or one that does not exist
 * @throws data_directory_in_use for the source; storage_failed if it is not a data directory, or if `into` is not empty
 */
export async function repairDirectory(
  dataDir: string,
  into: string,
  options: RepairOptions = {},
): Promise<Repaired> {
  if (!existsSync(collectionsDirectory(dataDir)) && !existsSync(catalogDirectory(dataDir)))
    throw new QuiverError("storage_failed", "The directory is no data directory of Quiver.");
  const unlock = lockForReading(realpathSync(dataDir));
  try {
    if (existsSync(into) && readdirSync(into).length > 0)
      throw new QuiverError("storage_failed", "The directory to repair into must be empty, or not be there.");
    const release = await takeDataDirectory(into, { waitMs: 0 });
    try {
      return await new Repair(dataDir, into, options).run();
    } finally {
      release();
    }
  } finally {
    unlock();
  }
}

class Repair {
  readonly #from: string;
  readonly #into: string;
  readonly #options: RepairOptions;
  readonly #nowMs: number;

  constructor(from: string, into: string, options: RepairOptions) {
    this.#from = from;
    this.#into = into;
    this.#options = options;
    this.#nowMs = (options.clock ?? Date.now)();
  }

  async run(): Promise<Repaired> {
    const { entries, credentials, damagedNames, isWhole } = this.#readCatalog();
    const catalog = new LmdbStore(catalogDirectory(this.#into), catalogTables);
    try {
      prepareCatalog(catalog);
      const change = (request: CatalogRequest) => {
        const { table, key, value } = catalogChange(request);
        if (value) catalog.write((writer) => writer.put(table, key, value));
      };
      for (const [key, value] of credentials) change({ kind: "putCredential", key, value });
      const collections: Repaired["collections"][number][] = [];
      for (const place of placesOf(this.#from, entries, isWhole)) {
        const done = await this.#collection(place, change);
        if (done !== undefined) collections.push(done);
      }
      for (const name of damagedNames)
        if (!collections.some((collection) => collection.name === name))
          this.#lose(
            name,
            "The collection's entry in the catalog is lost, and none of the directories says that it is this one's.",
          );
      for (const name of readdirSync(this.#from))
        if (serverFile.test(name) && lstatSync(join(this.#from, name)).isFile())
          copyDurably(join(this.#from, name), join(this.#into, name));
      const snapshots = this.#snapshots();
      syncDirectory(this.#into);
      return { collections, credentials: credentials.length, snapshots };
    } finally {
      await catalog.close();
    }
  }

  #lose(collection: string, message: string): void {
    this.#options.onLoss?.({ collection, message });
  }

  /** Copies the snapshots whose files are intact; their descriptions come from the files. @returns how many */
  #snapshots(): number {
    if (!existsSync(snapshotsDirectory(this.#from))) {
      this.#lose("", "The directory of snapshots is missing.");
      return 0;
    }
    const [from, to] = [new SnapshotDirectory(this.#from), new SnapshotDirectory(this.#into)];
    const { ids, strays } = from.look();
    let taken = 0;
    for (const [id, { file, entry }] of ids) {
      if (!file && !entry) continue;
      const found = this.#wholeSnapshot(from, id);
      if (found === undefined) continue;
      copyDurably(from.pathOf(id), to.unfinishedPathOf(id));
      to.publish(found);
      if (to.verify(id).sha256 !== found.sha256)
        throw new QuiverError("storage_failed", `The snapshot ${id} could not be copied: the copy differs.`);
      taken++;
    }
    for (const name of strays)
      this.#lose("", `snapshots/${name} does not belong to a snapshot and is not copied.`);
    return taken;
  }

  /** The description in a snapshot's file; undefined, and reported as lost, if the file is not the one that was acknowledged. */
  #wholeSnapshot(from: SnapshotDirectory, id: string): Snapshot | undefined {
    const entry = from.readEntry(id);
    let problem: string | undefined;
    try {
      const found = snapshotOf(id, from.verify(id));
      const differs = entry && difference(entry, found);
      if (differs === undefined) return found;
      problem = `It ${differs}.`;
    } catch (error) {
      problem = problemWords(error);
    }
    const name = entry?.collection_name ?? from.headerOf(id)?.collection.name ?? "";
    this.#lose(name, `The snapshot ${id} is lost. ${problem}`);
    return undefined;
  }

  #readCatalog(): ReturnType<typeof verifyCatalog> {
    const directory = catalogDirectory(this.#from);
    if (!existsSync(join(directory, "data.mdb"))) {
      this.#lose("", "The catalog is missing: keys and sessions are lost.");
      return { entries: [], credentials: [], damagedNames: [], isWhole: false, isSound: false };
    }
    return verifyCatalog(directory, ({ message, table }) => {
      if (table === "credentials") this.#lose("", `A key or session is lost. ${message}`);
    });
  }

  async #collection(
    { internalId, entry: known, ...place }: Place,
    change: (request: CatalogRequest) => void,
  ): Promise<Repaired["collections"][number] | undefined> {
    let { name } = place;
    const directory = collectionDirectory(this.#from, internalId);
    if (!existsSync(join(directory, "data.mdb"))) {
      this.#lose(name, "The collection's file is missing: all its records are lost.");
      return undefined;
    }
    const salvage = new Salvage(directory, (loss) => this.#options.onLoss?.({ collection: name, ...loss }));
    try {
      const definition = known?.definition ?? salvage.definition;
      if (definition === undefined) {
        this.#lose(name, "The collection's definition is lost, so its records cannot be understood.");
        return undefined;
      }
      name = definition.name;
      const entry = known ?? { internalId, createdMs: this.#nowMs, loaded: true, definition };
      const indexes = await this.#fill(entry, salvage);
      change({ kind: "putCollection", entry });
      return { name, records: salvage.taken, lost: salvage.lost, indexes };
    } finally {
      salvage.close();
    }
  }

  /** Makes the collection's store. @returns its indexes */
  async #fill(entry: CatalogEntry, salvage: Salvage): Promise<IndexKind[]> {
    const { definition } = entry;
    const directory = collectionDirectory(this.#into, entry.internalId);
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const store = new LmdbStore(directory, collectionTables);
    try {
      prepareCollection(store, this.#nowMs, definition);
      const sequencer = new LocalSequencer(store, {
        versionsKept: limits.versionsKeptDefault,
        maxVectors: null,
        clock: () => this.#nowMs,
        newOpId: randomOpId,
      });
      const write = (request: LoggedRequest) => {
        for (const outcome of [...sequencer.write([request])].flat()) if (!outcome.ok) throw outcome.error;
      };
      const indexes = salvage.indexes;
      for (const [index, of] of Object.entries(indexes) as [IndexKind, IndexDefinitions["sparse"]][])
        if (of !== undefined) write({ kind: "createIndex", index, definition: of });
      for (const batch of this.#batches(salvage.operations(definition))) {
        write({ kind: "upsert", batch });
        this.#options.onProgress?.(definition.name, salvage.taken);
      }
      syncDirectory(directory);
      return Object.keys(indexes) as IndexKind[];
    } finally {
      await store.close();
    }
  }

  /** Operations in batches of a limited size: each becomes one version. */
  *#batches(operations: Iterable<Uint8Array>): Generator<Uint8Array> {
    let parts: Uint8Array[] = [];
    let bytes = 0;
    for (const operation of operations) {
      if (bytes > 0 && bytes + operation.length > limits.groupCommitBytesMax) {
        yield Buffer.concat(parts);
        parts = [];
        bytes = 0;
      }
      parts.push(operation);
      bytes += operation.length;
    }
    if (bytes > 0) yield Buffer.concat(parts);
  }
}

/** Copies a file durably; only the owner may read the copy. */
function copyDurably(from: string, to: string): void {
  copyFileSync(from, to);
  chmodSync(to, 0o600);
  syncFile(to);
}
