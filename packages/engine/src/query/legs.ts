// Which index answers which leg of a plan?
//
// Legs of one kind are started together, because a kind may answer several queries in one pass.

import { QuiverError } from "@quiverdb/protocol/errors";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../base/invariant.ts";
import type { Steps } from "../base/steps.ts";
import type { IndexDefinitions } from "../collection/apply.ts";
import { ordinalKey } from "../collection/tables.ts";
import type { Candidates } from "../index/contract.ts";
import type { ChosenWay, Leg, LegAccount, LegOptions, LegSearches, SearchedVersion } from "../index/kind.ts";
import { kindNamed, kindsWith } from "../index/registry.ts";
import type { Metric } from "../vector/metric.ts";
import type { SearchedView } from "../views/view.ts";

/** A leg of a query, bound to the index of its kind. */
export interface SearchedLeg {
  readonly kind: IndexKind;
  search(k: number): Steps<Candidates>;
  /** See LegSearches.tell. */
  tell(): Steps<unknown> | undefined;
  /** See LegSearches.chosen. */
  chosen(k: number): ChosenWay | undefined;
  /** See LegSearches.account. */
  account(visitsMax: number): Steps<LegAccount> | undefined;
  /** See LegSearches.explain. */
  explain(ordinals: readonly number[], onMatch: () => void): Steps<readonly object[]>;
}

/** The legs of a request's queries. */
export class Legs {
  readonly #queries: SearchedLeg[][];

  /** @param view pinned, with all indexes that the legs need. @throws invalid_request if an index cannot search a leg */
  constructor(view: SearchedView, queries: readonly (readonly Leg[])[], options: LegOptions) {
    const legs = new Map<IndexKind, Leg[]>();
    for (const query of queries)
      for (const leg of query) {
        const others = legs.get(leg.kind);
        if (others === undefined) legs.set(leg.kind, [leg]);
        else others.push(leg);
      }
    const searches = new Map<IndexKind, { of: LegSearches; next: number }>();
    for (const [kind, of] of legs) searches.set(kind, { of: begin(view, kind, of, options), next: 0 });
    this.#queries = queries.map((query) =>
      query.map(({ kind }) => {
        const started = searches.get(kind) as { of: LegSearches; next: number };
        return legOf(kind, started.of, started.next++);
      }),
    );
  }

  /** Of a query, in their order. */
  of(query: number): readonly SearchedLeg[] {
    return this.#queries[query];
  }
}

function begin(view: SearchedView, kind: IndexKind, legs: readonly Leg[], options: LegOptions): LegSearches {
  const reader = view.readerOf(kind);
  invariant(reader !== undefined, `the view has no ${kind} index`);
  return kindNamed(kind).search(reader, legs, versionOf(view, kind), options);
}

const legOf = (kind: IndexKind, of: LegSearches, at: number): SearchedLeg => ({
  kind,
  search: (k) => of.search(at, k),
  tell: () => of.tell?.(at),
  chosen: (k) => of.chosen?.(at, k),
  account: (visitsMax) => of.account?.(at, visitsMax),
  explain: (ordinals, onMatch) => of.explain(at, ordinals, onMatch),
});

function versionOf(view: SearchedView, kind: IndexKind): SearchedVersion {
  return {
    visible: () => view.visible,
    vectorOf: vectorsOf(view),
    statistics: view.statistics[kind],
  };
}

/** The metric of the vectors of a view, which has an index of them. */
export function metricOf(view: SearchedView): Metric {
  for (const { name, vectors } of kindsWith("vectors")) {
    const reader = view.readerOf(name);
    if (reader !== undefined) return vectors.metric(reader);
  }
  throw new Error("Invariant broken: the view has no index of vectors");
}

/** Reads full-precision vectors from the view's read transaction. */
export function vectorsOf(view: SearchedView): (ordinal: number) => Uint8Array {
  return (ordinal) => {
    const bytes = view.readTxn.get("dense", ordinalKey(ordinal));
    invariant(
      bytes !== undefined,
      `the index found ordinal ${ordinal}, whose vector the version does not have`,
    );
    return bytes;
  };
}

// ---- Does a collection have the indexes that a search needs?

/** @throws index_not_found naming the call that creates it */
export function requireIndexes(
  definitions: IndexDefinitions,
  kinds: readonly IndexKind[],
  name: string,
): void {
  for (const kind of kinds)
    if (!definitions[kind])
      throw new QuiverError(
        "index_not_found",
        `The collection '${name}' has no ${kind} index. Create it with POST /vectordb/collections/${encodeURIComponent(name)}/indexes/${kind}, or with the collection's method for it.`,
        { index_type: kind, name },
      );
}
