// What do the pages of a collection know of it?

import type { QuiverClient } from "@quiverdb/client";
import { isQuiverError } from "@quiverdb/protocol/errors";
import type { CollectionDetail } from "@quiverdb/protocol/shapes/collection";
import type { Indexes, IndexStatus, MetadataIndexes } from "@quiverdb/protocol/shapes/index-definition";

export type Facts = {
  readonly detail: CollectionDetail;
  /** A key with a filter is not told of the indexes, which are of all records. */
  readonly areIndexesKnown: boolean;
  readonly indexes: Indexes;
  readonly fields: MetadataIndexes["indexes"];
};

/** What each page of a collection gets. */
export type TabProps = {
  readonly name: string;
  readonly facts: Facts;
  /** Of the address: what the page begins with. */
  readonly query: URLSearchParams;
  /** Reads the facts again now. */
  readonly refresh: () => void;
};

export async function readFacts(client: QuiverClient, name: string, signal: AbortSignal): Promise<Facts> {
  const collection = client.collection(name);
  const detail = await collection.describe({ signal });
  try {
    const [indexes, fields] = await Promise.all([
      collection.indexes({ signal }),
      collection.metadataIndexes({ signal }),
    ]);
    return { detail, areIndexesKnown: true, indexes, fields };
  } catch (error) {
    if (!isQuiverError(error, "forbidden")) throw error;
    return { detail, areIndexesKnown: false, indexes: {}, fields: [] };
  }
}

/** An index as pages call it: its kind, or the field of the metadata. */
export type NamedStatus = { readonly name: string; readonly status: IndexStatus };

export const namedStatusesOf = ({ indexes, fields }: Facts): readonly NamedStatus[] => [
  ...Object.entries(indexes).map(([kind, { status }]) => ({
    name: kind === "tf-idf" ? "text" : kind,
    status,
  })),
  ...fields.map(({ field, status }) => ({ name: field, status })),
];

export const statusesOf = (facts: Facts): readonly IndexStatus[] =>
  namedStatusesOf(facts).map(({ status }) => status);

/** The kinds of search that the collection is for, and that have no index yet. */
export function missingIndexes({
  areIndexesKnown,
  detail,
  indexes,
}: Facts): readonly ("dense" | "sparse" | "text")[] {
  if (!areIndexesKnown) return [];
  const kinds = [
    ["dense", detail.dense_vector.enabled, indexes.dense],
    ["sparse", detail.sparse_vector.enabled, indexes.sparse],
    ["text", detail.tf_idf_options.enabled, indexes["tf-idf"]],
  ] as const;
  return kinds.flatMap(([kind, isEnabled, index]) => (isEnabled && index === undefined ? [kind] : []));
}

/** Whether an index in memory has not everything yet, or cannot go on. */
export const isBehind = ({ state, percentage_complete, failure }: IndexStatus): boolean =>
  state !== "unloaded" && (state === "building" || percentage_complete < 100 || failure !== undefined);

/** Milliseconds until the facts are read again: soon while something is built. */
export const pauseFor = (all: readonly Facts[]): number =>
  all.some((facts) => statusesOf(facts).some(({ state }) => state === "building")) ? 1_000 : 4_000;
