// What happens when the disk fails a commit?
//
// LMDB refuses to use a store after a failed commit. The store is reopened in the background; that is retried until it succeeds.

import { QuiverError } from "@quiverdb/protocol/errors";
import type { Background } from "../base/background.ts";
import { verifyCatalog } from "../collection/verify-catalog.ts";
import { catalogDirectory } from "../process/data-directory.ts";
import type { Writer } from "../runtime/writer.ts";
import type { Collections } from "./collections.ts";
import type { DatabaseLog } from "./contract.ts";

export type ReopeningDependencies = {
  readonly dataDir: string;
  readonly writer: Writer;
  readonly background: Background;
  readonly log: DatabaseLog;
  isClosing(): boolean;
  /** Closes the catalog everywhere, and opens it again. */
  reopenCatalog(): Promise<void>;
};

export class Reopening {
  readonly #collections: Collections;
  readonly #dependencies: ReopeningDependencies;

  constructor(collections: Collections, dependencies: ReopeningDependencies) {
    this.#collections = collections;
    this.#dependencies = dependencies;
  }

  /** Reopens a store that can no longer be used; retries until that succeeds. */
  reopen(internalId: string | null): void {
    const store = internalId ?? "catalog";
    this.#dependencies.log.error({ store }, "the disk failed a commit; the store is opened again");
    this.#dependencies.background.run(`opening the store ${store} again`, async () => {
      if (this.#dependencies.isClosing()) return;
      await (internalId === null ? this.#reopenCatalog() : this.#reopenCollection(internalId));
      this.#dependencies.log.info({ store }, "the store is open again");
    });
  }

  async #reopenCollection(internalId: string): Promise<void> {
    const broken = [...this.#collections.served.values()].find(
      ({ entry }) => entry.internalId === internalId,
    );
    // The collection was deleted meanwhile, or its creation has failed.
    if (broken === undefined) return;
    const reason = new QuiverError(
      "not_ready",
      "The collection is being opened again after a failure of the disk. Send the request again.",
    );
    await broken.close(reason, false);
    await this.#dependencies.writer.closeStore(internalId);
    const opened = await this.#collections.open(broken.entry);
    if (this.#collections.served.get(broken.name) === broken) {
      this.#collections.served.set(broken.name, opened);
      opened.start(opened.entry.loaded);
    } else await this.#collections.remove(opened);
  }

  /** The last change was rejected with an error, so the catalog must match the collections that this process knows. */
  async #reopenCatalog(): Promise<void> {
    await this.#dependencies.reopenCatalog();
    const { entries } = verifyCatalog(catalogDirectory(this.#dependencies.dataDir), () => {});
    const noted = new Map(entries.map((entry) => [entry.definition.name, entry]));
    const { served, quarantined, elsewhere } = this.#collections;
    for (const name of quarantined.keys()) noted.delete(name);
    for (const entry of [...Array.from(served.values(), (each) => each.entry), ...elsewhere.values()]) {
      const { name } = entry.definition;
      const there = noted.get(name);
      noted.delete(name);
      if (there?.internalId !== entry.internalId)
        await this.#dependencies.writer.changeCatalog({ kind: "putCollection", entry });
    }
    for (const name of noted.keys())
      if (!this.#collections.changing.has(name))
        await this.#dependencies.writer.changeCatalog({ kind: "deleteCollection", name });
  }
}
