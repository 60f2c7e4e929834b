// How does the definition of an index become an index and the feed that fills it?
//
// What the kind of index makes of the definition is joined with where its checkpoints are, and with the threads that help it.

import { createHash } from "node:crypto";
import { join } from "node:path";
import type { IndexKind } from "@quiver/protocol/shapes/index-definition";
import { invariant } from "../base/invariant.ts";
import type { IndexDefinitions } from "../collection/apply.ts";
import type { CheckpointAdapter } from "../index/checkpoint-adapter.ts";
import type { Index } from "../index/contract.ts";
import type { IndexBlueprint, IndexDefinition, IndexDependencies, IndexedCollection } from "../index/kind.ts";
import { kindNamed } from "../index/registry.ts";
import { Feed, type Helpers } from "../indexing/feed.ts";
import { Keeper } from "../indexing/keeper.ts";
import type { Builders } from "../runtime/builders.ts";

/** What a feed needs from those who own it. */
export type FeedDependencies = IndexDependencies & {
  /** Of the collection; indexes that are checkpointed have files in it. */
  readonly directory: string;
  readonly builders: Builders;
  /** Does in the background what never fails. */
  run(act: () => Promise<void>): void;
  /** Something went wrong that does no harm but to speed. */
  onProblem(what: string, problem: unknown): void;
};

/** Where an index of a collection is checkpointed. */
export const checkpointPath = (directory: string, kind: IndexKind): string =>
  join(directory, "checkpoints", kind);

function definitionOf(kind: IndexKind, definitions: IndexDefinitions): IndexDefinition {
  const definition = definitions[kind];
  invariant(definition !== undefined, `the collection has no ${kind} index`);
  return definition;
}

function blueprintOf(
  collection: IndexedCollection,
  kind: IndexKind,
  definitions: IndexDefinitions,
  dependencies: IndexDependencies,
): IndexBlueprint {
  return kindNamed(kind).blueprint(collection, definitionOf(kind, definitions), dependencies);
}

const configurationOf = ({ deciding }: IndexBlueprint): string =>
  createHash("sha256").update(JSON.stringify(deciding)).digest("hex");

/** How an index of a collection is checkpointed, for whoever reads a checkpoint without serving it. */
export function checkpointOf(...of: Parameters<typeof blueprintOf>): {
  configuration: string;
  form: CheckpointAdapter<Index, unknown>;
} {
  const blueprint = blueprintOf(...of);
  return { configuration: configurationOf(blueprint), form: blueprint.checkpoint };
}

/** The feed of an index of a collection. */
export function makeFeed(
  collection: IndexedCollection,
  kind: IndexKind,
  definitions: IndexDefinitions,
  dependencies: FeedDependencies,
): Feed {
  const { directory, builders, onProblem } = dependencies;
  const blueprint = blueprintOf(collection, kind, definitions, dependencies);
  const keeper = new Keeper(
    checkpointPath(directory, kind),
    configurationOf(blueprint),
    blueprint.checkpoint,
    builders,
    (problem) => onProblem(`a ${kind} index could not be kept on disk, or read from it`, problem),
  );
  const helpers = helpersOf(kind, definitionOf(kind, definitions), dependencies);
  return new Feed(kindNamed(kind), () => blueprint.make(), keeper, helpers);
}

function helpersOf(
  kind: IndexKind,
  definition: IndexDefinition,
  { builders, run, wake }: FeedDependencies,
): Helpers | undefined {
  const preparation = kindNamed(kind).preparation?.(definition);
  return (
    preparation && {
      preparation,
      analysts: {
        analyse: async (rows) => preparation.read(await builders.analyse(rows, preparation.analysis)),
        onArrival: wake,
        run,
      },
    }
  );
}
