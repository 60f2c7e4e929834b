// Which collections take no writes, because replicas or the log differ from what this node has applied?
//
// That is noted, so that they take none after a restart either. It ends when a node's collection is adopted, which has another internal id.

import type { Replica } from "@quiverdb/engine/database/replication";
import type { QuiverError } from "@quiverdb/protocol/errors";
import { logDiverged } from "./errors.ts";

const note = "diverged";

export class Divergence {
  readonly #notes: Replica["notes"];
  /** By internal id, or "catalog". */
  readonly #found = new Map<string, { readonly why: string; readonly error: QuiverError }>();
  #isNoted = true;

  constructor(notes: Replica["notes"]) {
    this.#notes = notes;
  }

  /** What was found before the last stop. */
  noted(): [internalId: string, why: string][] {
    return Object.entries((this.#notes.get(note) ?? {}) as Record<string, string>);
  }

  /** @returns the error that writes get from now on; undefined if they got one before */
  add(internalId: string, name: string | undefined, why: string): QuiverError | undefined {
    if (this.#found.has(internalId)) return undefined;
    const error = logDiverged(name === undefined ? "The catalog" : `The collection '${name}'`, why);
    this.#found.set(internalId, { why, error });
    this.#isNoted = false;
    return error;
  }

  errorOf(internalId: string): QuiverError | undefined {
    return this.#found.get(internalId)?.error;
  }

  get size(): number {
    return this.#found.size;
  }

  /** Notes it durably. @param isThere whether a collection was not deleted */
  async note(isThere: (internalId: string) => boolean): Promise<void> {
    for (const internalId of this.#found.keys()) {
      if (internalId === "catalog" || isThere(internalId)) continue;
      this.#found.delete(internalId);
      this.#isNoted = false;
    }
    if (this.#isNoted) return;
    const whys = Array.from(this.#found, ([internalId, { why }]) => [internalId, why] as const);
    await this.#notes.put(note, Object.fromEntries(whys));
    this.#isNoted = true;
  }
}
