// Which version do all indexes have in full, every record in its final place?
//
// Indexes first put records into a mutable buffer or a tail, and link them in the background. A published version is remembered until all
// of its records are in their final places.

import { invariant } from "../base/invariant.ts";

/** Versions that are remembered. */
const incompleteMax = 1_000;

export class Completion {
  readonly #onComplete: (version: number) => void;
  /** Published versions that are not complete, ascending, and the ordinals that they end at. */
  #incomplete: { version: number; ordinalEnd: number }[] = [];
  /** Version up to which every index has applied all changes; -1 during the first build of one. */
  watermark = -1;
  /** Version up to which every index has all records in their final places; -1 for none yet. */
  completed = -1;

  /** @param onComplete called with each greater `completed` */
  constructor(onComplete: (version: number) => void) {
    this.#onComplete = onComplete;
  }

  /**
   * Records that every index has applied all changes of a version, whose records have ordinals below `ordinalEnd`.
   * @returns whether that is new
   */
  rise(version: number, ordinalEnd: number): boolean {
    if (this.watermark >= version) return false;
    const last = this.#incomplete.at(-1);
    invariant(
      last === undefined || (last.version <= version && last.ordinalEnd <= ordinalEnd),
      () =>
        `version ${version} ends at ordinal ${ordinalEnd}, after version ${last?.version} at ${last?.ordinalEnd}`,
    );
    this.watermark = version;
    // An index that was added meanwhile has caught up with a version that others had reached, and that still waits.
    if (last?.version === version) return true;
    // If very many wait, the newest two are merged into one.
    if (this.#incomplete.length >= incompleteMax) this.#incomplete.pop();
    this.#incomplete.push({ version, ordinalEnd });
    return true;
  }

  /** All records with smaller ordinals are in their final places. */
  reach(ordinalEnd: number): void {
    let version = -1;
    while (this.#incomplete.length > 0 && this.#incomplete[0].ordinalEnd <= ordinalEnd)
      version = (this.#incomplete.shift() as { version: number }).version;
    if (version <= this.completed) return;
    invariant(
      version <= this.watermark || this.watermark < 0,
      () => `version ${version} is complete, and the indexes are at ${this.watermark}`,
    );
    this.completed = version;
    this.#onComplete(version);
  }
}
