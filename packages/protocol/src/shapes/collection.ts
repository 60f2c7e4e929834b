// How is a collection represented in the API?

import Type, { type Static } from "typebox";
import { limits } from "../limits.ts";
import { Defaulted, Fields, Maybe, OneOf } from "./common.ts";
import { Version } from "./version.ts";

/** How far back versions are readable. */
export const History = Type.Unsafe<{ versions: number } | { seconds: number } | "all">({
  type: ["object", "string"],
  properties: {
    versions: { type: ["integer", "null"], minimum: 1 },
    seconds: { type: ["integer", "null"], minimum: 1 },
  },
  additionalProperties: false,
  description:
    'How far back versions can be read: {"versions": n}, the latest n; {"seconds": s}, those that were current in the last s seconds; "all". null: only the current version, and those with a tag.',
});

export const CollectionConfig = Fields(
  {
    max_vectors: Maybe(
      Type.Integer({
        minimum: 1,
        description: "Maximum number of live vectors in the collection; null: unlimited.",
      }),
    ),
    replication_factor: Maybe(
      Type.Integer({
        minimum: 1,
        description:
          "In a cluster: how many nodes hold it, or each of its shards. A server alone stores it without effect. null: the default.",
      }),
    ),
    memory_budget_bytes: Maybe(
      Type.Integer({
        minimum: 1,
        description:
          "Memory limit of the collection's indexes, in bytes; requests that would exceed it are rejected with `memory_budget_exceeded`. null: no separate limit.",
      }),
    ),
    history: Maybe(History),
    shards: Maybe(
      Type.Integer({
        minimum: 1,
        maximum: limits.shardsMax,
        description:
          "In a cluster: into how many shards the records are divided, by their ids, so that several nodes hold them together. It never changes. null: 1.",
      }),
    ),
  },
  { description: "Limits of the collection; an empty object for none." },
);

export const CopyCollection = Fields(
  { name: Type.String({ description: "Name of the copy." }) },
  { description: "What is made of a version of the collection." },
);

export const MergeCollection = Fields(
  {
    from: Type.String({ description: "Name of the copy, whose changes since it was made are taken over." }),
    on_conflict: Maybe(
      OneOf(["ours", "theirs"], {
        description:
          "What holds for records that both have changed: `ours`, as they are here; `theirs`, as in the copy. Default: nothing is changed, and 409 `merge_conflict` lists them.",
      }),
    ),
  },
  { description: "Which changes are merged." },
);

const did = (whose: string) =>
  Type.Unsafe<"added" | "changed" | "removed">({
    type: "string",
    enum: ["added", "changed", "removed"],
    description: `What ${whose} did to it.`,
  });
const Conflict = Type.Object({
  id: Type.String({ description: "Id of the record." }),
  ours: did("the original"),
  theirs: did("the copy"),
});

const records = (what: string) => Type.Integer({ minimum: 0, description: `Records that were ${what}.` });

export const Merged = Type.Object(
  {
    version: Version,
    added: records("added"),
    changed: records("changed"),
    removed: records("removed"),
    conflicts: Type.Array(Conflict, {
      description: "Records that both had changed: the first 1,000, by id.",
    }),
  },
  { description: "What a merge has done, as one version." },
);

export const PutAlias = Fields(
  { collection: Type.String({ description: "Name of the collection that it stands for from now on." }) },
  { description: "What an alias stands for." },
);
export const Alias = Type.Object(
  {
    alias: Type.String({ description: "Another name of the collection." }),
    collection: Type.String({ description: "Name of the collection." }),
  },
  { description: "An alias of a collection." },
);
export const AliasList = Type.Object({ aliases: Type.Array(Alias, { description: "By name." }) });

export type MergeCollection = Static<typeof MergeCollection>;
export type Conflict = Static<typeof Conflict>;
export type Merged = Static<typeof Merged>;
export type Alias = Static<typeof Alias>;
export type AliasList = Static<typeof AliasList>;

export const PatchCollection = Fields(
  { config: Fields({ history: Maybe(History) }) },
  { description: "What changes; history null: versions are no longer kept." },
);

const disabled = { enabled: false };

export const CreateCollection = Fields(
  {
    name: Type.String({
      description:
        "Unique name, also the collection's id: 1 to 255 bytes of UTF-8 without / \\ ? # % and control characters, not '.', '..' or 'loaded'.",
    }),
    description: Maybe(Type.String({ description: "Free text, at most 64 KiB." })),
    dense_vector: Defaulted(
      Fields(
        {
          enabled: Type.Boolean({ description: "Enables dense vectors." }),
          dimension: Maybe(
            Type.Integer({
              minimum: 1,
              maximum: limits.dimensionMax,
              description: "Number of values of every dense vector. Required when enabled.",
            }),
          ),
          auto_create_index: Maybe(
            Type.Boolean({ description: "Creates the dense index with default settings." }),
          ),
        },
        { description: "Dense vectors." },
      ),
      disabled,
    ),
    sparse_vector: Defaulted(
      Fields(
        {
          enabled: Type.Boolean({ description: "Enables sparse vectors." }),
          auto_create_index: Maybe(
            Type.Boolean({ description: "Creates the sparse index with default settings." }),
          ),
        },
        { description: "Sparse vectors." },
      ),
      disabled,
    ),
    tf_idf_options: Defaulted(
      Fields(
        { enabled: Type.Boolean({ description: "Enables text search (BM25)." }) },
        { description: "Texts." },
      ),
      disabled,
    ),
    config: Defaulted(CollectionConfig, {}),
    store_raw_text: Maybe(
      Type.Boolean({
        description:
          "Stores the raw text, so that it can be returned. Otherwise only the analysed terms are stored.",
      }),
    ),
  },
  { description: "A new collection. At least one of the three kinds must be enabled." },
);

const name = Type.String({ description: "Its name, which is its id." });
const description = Type.Optional(Type.String({ description: "Absent if none was given." }));

export const CollectionCreated = Type.Object({ id: name, name, description });

export const CollectionSummary = Type.Object(
  {
    name,
    description,
    damaged: Type.Optional(
      Type.Boolean({
        description: "Present only if true: the stored data is damaged and the collection is not served.",
      }),
    ),
  },
  { description: "A collection in a list." },
);

export const CollectionList = Type.Object({ collections: Type.Array(CollectionSummary) });

const enabled = Type.Boolean({ description: "Whether records may have this kind of content." });
const nullableInteger = (text: string) =>
  Type.Unsafe<number | null>({ type: ["integer", "null"], description: text });

export const CollectionDetail = Type.Object(
  {
    name,
    description,
    dense_vector: Type.Object(
      {
        enabled,
        dimension: nullableInteger("Number of values of every dense vector; null if they are not enabled."),
      },
      { description: "Dense vectors." },
    ),
    sparse_vector: Type.Object({ enabled }, { description: "Sparse vectors." }),
    tf_idf_options: Type.Object({ enabled }, { description: "Text search (BM25)." }),
    config: Type.Object(
      {
        max_vectors: nullableInteger("Maximum number of live vectors; null: unlimited."),
        replication_factor: nullableInteger("As it was given."),
        history: Type.Optional(History),
        memory_budget_bytes: Type.Optional(
          Type.Integer({
            description:
              "Memory limit of its indexes, in bytes. Absent if the collection has no separate limit.",
          }),
        ),
        shards: Type.Optional(Type.Integer({ description: "Shards of its records. Absent: 1." })),
      },
      { description: "The limits of the collection." },
    ),
    store_raw_text: Type.Boolean({ description: "Whether texts can be returned." }),
    origin: Type.Optional(
      Type.Object(
        { name: Type.String(), version: Type.Integer(), hash: Type.String() },
        { description: "Of a copy: the collection and its version as which it began." },
      ),
    ),
    vectors_count: Type.Integer({ description: "Live vectors at the current version." }),
    loaded: Type.Boolean({ description: "Whether the collection's indexes are in memory." }),
    disk_bytes: Type.Optional(
      Type.Integer({
        description:
          "Bytes that the collection's files take on the disk: records, change log and versions, the operations of an open transaction, and checkpoints of indexes, but not its snapshots. Space of deleted records stays in the files and is used again. Absent for a key with a filter.",
      }),
    ),
  },
  { description: "A collection with its configuration and state." },
);

export const LoadedCollections = Type.Array(Type.String());

/** A sentence. */
export const CollectionUnloaded = Type.String();

export type History = Static<typeof History>;
export type CopyCollection = Static<typeof CopyCollection>;
export type PatchCollection = Static<typeof PatchCollection>;
export type CreateCollection = Static<typeof CreateCollection>;
export type CollectionCreated = Static<typeof CollectionCreated>;
export type CollectionSummary = Static<typeof CollectionSummary>;
export type CollectionList = Static<typeof CollectionList>;
export type CollectionDetail = Static<typeof CollectionDetail>;
export type LoadedCollections = Static<typeof LoadedCollections>;
export type CollectionUnloaded = Static<typeof CollectionUnloaded>;
