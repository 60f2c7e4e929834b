// How are earlier versions searched?
//
// A version that is asked for is copied into a store of its own and opened as a collection that nobody writes (version-copy.ts). So it has
// the indexes, statistics, filters, plans and cursors of a collection, and whoever searches today pays nothing. The latest few stay open, count
// towards the memory budget, and are unloaded like other collections. The next start removes what a crash leaves.

import { rmSync } from "node:fs";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { Background } from "../base/background.ts";
import type { CatalogEntry } from "../collection/definition.ts";
import type { VersionEntry } from "../collection/versions.ts";
import { collectionDirectory } from "../process/data-directory.ts";
import type { OpenCollection } from "./collection.ts";
import type { Collections } from "./collections.ts";
import type { BackupJobs } from "./snapshots/backup-jobs.ts";

type Opened = {
  /** Internal id of the collection of which it is a version. */
  readonly of: string;
  readonly collection: Promise<OpenCollection>;
  readonly controller: AbortController;
  users: number;
};

export class PastVersions {
  readonly #dataDir: string;
  readonly #collections: Collections;
  readonly #jobs: BackupJobs;
  readonly #background: Background;
  /** By their own internal ids, least recently used first. */
  readonly #opened = new Map<string, Opened>();
  /** Copies are made, and removed, one after the other. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(dataDir: string, collections: Collections, jobs: BackupJobs, background: Background) {
    this.#dataDir = dataDir;
    this.#background = background;
    this.#collections = collections;
    this.#jobs = jobs;
  }

  /** Runs `act` with an earlier version of a collection, which stays open until then. */
  async use<T>(
    of: CatalogEntry,
    version: VersionEntry,
    act: (collection: OpenCollection) => Promise<T>,
  ): Promise<T> {
    // The same for the same version, so that cursors stay valid.
    const internalId = `past-${of.internalId}-${version.version}`;
    const opened = this.#opened.get(internalId) ?? this.#open(internalId, of, version);
    this.#opened.delete(internalId);
    this.#opened.set(internalId, opened);
    opened.users++;
    try {
      return await act(await opened.collection);
    } catch (error) {
      if (opened.controller.signal.aborted) throw opened.controller.signal.reason;
      throw error;
    } finally {
      opened.users--;
      this.#shrink();
    }
  }

  #open(internalId: string, of: CatalogEntry, version: VersionEntry): Opened {
    const controller = new AbortController();
    const collection = this.#inTurn(() => this.#make(internalId, of, version, controller.signal));
    collection.catch(() => this.#opened.delete(internalId));
    return { of: of.internalId, collection, controller, users: 0 };
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const done = this.#last.then(act);
    this.#last = done.catch(() => undefined);
    return done;
  }

  async #make(
    internalId: string,
    of: CatalogEntry,
    entry: VersionEntry,
    signal: AbortSignal,
  ): Promise<OpenCollection> {
    const directory = collectionDirectory(this.#dataDir, internalId);
    const from = collectionDirectory(this.#dataDir, of.internalId);
    rmSync(directory, { recursive: true, force: true });
    try {
      await this.#jobs.run(
        { kind: "copyVersion", from, directory, entry, history: null, isOrigin: false },
        signal,
      );
      const collection = await this.#collections.open({
        internalId,
        createdMs: entry.createdMs,
        loaded: false,
        pastOf: of.internalId,
        definition: of.definition,
      });
      this.#collections.past.add(collection);
      collection.start(false);
      return collection;
    } catch (error) {
      rmSync(directory, { recursive: true, force: true });
      throw error;
    }
  }

  #shrink(): void {
    for (const [internalId, { users }] of this.#opened) {
      if (this.#opened.size <= limits.pastVersionsMax) break;
      if (users === 0)
        this.#background.once("closing an earlier version", () => this.#close(internalId, shrunk));
    }
  }

  async #close(internalId: string, reason: QuiverError): Promise<void> {
    const opened = this.#opened.get(internalId);
    if (opened === undefined) return;
    this.#opened.delete(internalId);
    opened.controller.abort(reason);
    await this.#inTurn(async () => {
      const collection = await opened.collection.catch(() => undefined);
      if (collection === undefined) return;
      this.#collections.past.delete(collection);
      await this.#collections.remove(collection, "closed as an earlier version");
    });
  }

  /** Closes those of a collection that is deleted or replaced; undefined: all. */
  async close(reason: QuiverError, of?: string): Promise<void> {
    const closing = [...this.#opened].filter(([, opened]) => of === undefined || opened.of === of);
    await Promise.all(closing.map(([internalId]) => this.#close(internalId, reason)));
  }
}

const shrunk = new QuiverError(
  "not_ready",
  "Other versions were asked for meanwhile. Send the request again.",
);
