// Which version do searches see, and how long does it stay readable?
//
// A `View` is one version of a collection that all its indexes contain, with the snapshot of the store at that version. Indexing
// publishes views. A search pins one view for all its legs and fetches, so it sees one version, whatever is written or indexed
// meanwhile (invariant 2).
//
//   published --pin--> pinned (n searches) --unpin--> ... --replaced and unpinned--> released
//
// The next view replaces the current one. A replaced view lives until its last search ends. Records that were closed after the oldest
// living view must stay in the indexes (collection/visibility.ts).

import type { IndexKind } from "@quiver/protocol/shapes/index-definition";
import { invariant } from "../base/invariant.ts";
import type { Visibility, VisibleAt } from "../collection/visibility.ts";
import type { Index } from "../index/contract.ts";
import type { Snapshot } from "../storage/store.ts";

/** The indexes of a view. Kinds that the collection does not have are absent. */
export type LiveIndexes = Readonly<Partial<Record<IndexKind, Index>>>;

export class View {
  readonly version: number;
  /** The next unused ordinal at this version. */
  readonly ordinalEnd: number;
  readonly snapshot: Snapshot;
  readonly indexes: LiveIndexes;
  /** The statistics of its indexes when the version was current (`Index.statistics`). */
  readonly statistics: Readonly<Partial<Record<IndexKind, unknown>>>;
  readonly #visibility: Visibility;
  #pins = 1;
  readonly #onRelease: (view: View) => void;

  constructor(
    fields: Pick<View, "version" | "ordinalEnd" | "snapshot" | "indexes" | "statistics">,
    visibility: Visibility,
    onRelease: (view: View) => void,
  ) {
    this.version = fields.version;
    this.ordinalEnd = fields.ordinalEnd;
    this.snapshot = fields.snapshot;
    this.indexes = fields.indexes;
    this.statistics = fields.statistics;
    this.#visibility = visibility;
    this.#onRelease = onRelease;
  }

  /** Tests whether an ordinal is visible at this version; null if all are. Get it again after every await. */
  get visible(): VisibleAt | null {
    return this.#visibility.at(this.version, this.ordinalEnd);
  }

  has(kind: IndexKind): boolean {
    return this.indexes[kind] !== undefined;
  }

  /** Whether it is at `version` or later, and has these indexes. */
  serves(version: number, kinds: readonly IndexKind[]): boolean {
    return this.version >= version && kinds.every((kind) => this.has(kind));
  }

  pin(): this {
    invariant(this.#pins > 0, "a released view is pinned");
    this.#pins++;
    return this;
  }

  unpin(): void {
    invariant(this.#pins > 0, "a view is unpinned too often");
    if (--this.#pins > 0) return;
    this.snapshot.release();
    this.#onRelease(this);
  }
}

/** The living views of a collection. */
export class Views {
  #current: View | null = null;
  readonly #living = new Set<View>();
  readonly #onOldestReleased: () => void;

  /** @param onOldestReleased called when closed records may have become removable */
  constructor(onOldestReleased: () => void) {
    this.#onOldestReleased = onOldestReleased;
  }

  get current(): View | null {
    return this.#current;
  }

  /** The smallest version that a search may still see; Infinity for none. */
  get oldestVersion(): number {
    let oldest = Number.POSITIVE_INFINITY;
    for (const view of this.#living) oldest = Math.min(oldest, view.version);
    return oldest;
  }

  /** Whether a search may still be using an index. */
  uses(index: Index): boolean {
    for (const view of this.#living)
      if (Object.values(view.indexes).some((held) => held === index)) return true;
    return false;
  }

  publish(
    fields: Pick<View, "version" | "ordinalEnd" | "snapshot" | "indexes" | "statistics">,
    visibility: Visibility,
  ): View {
    invariant(
      this.#current === null || fields.version >= this.#current.version,
      "a view goes back to an older version",
    );
    const view = new View(fields, visibility, (released) => {
      this.#living.delete(released);
      this.#onOldestReleased();
    });
    const previous = this.#current;
    this.#current = view;
    this.#living.add(view);
    previous?.unpin();
    return view;
  }

  /** Removes the current view. Searches that pinned it continue. */
  withdraw(): void {
    const previous = this.#current;
    this.#current = null;
    previous?.unpin();
  }
}
