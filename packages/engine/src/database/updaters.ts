// How does an index definition become an index and its updater?
//
// The kind of index makes a blueprint of the definition. Here it gets the place of its checkpoint and the threads that help.

import { createHash } from "node:crypto";
import { join } from "node:path";
import {
  type IndexDefinition,
  type IndexKind,
  isMetadataIndex,
} from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../base/invariant.ts";
import type { IndexDefinitions } from "../collection/apply.ts";
import type { CheckpointAdapter } from "../index/checkpoint-adapter.ts";
import type { Index } from "../index/contract.ts";
import type { IndexBlueprint, IndexDependencies, IndexedCollection } from "../index/kind.ts";
import { kindNamed } from "../index/registry.ts";
import { Checkpointer } from "../indexing/checkpointer.ts";
import { IndexUpdater } from "../indexing/index-updater.ts";
import type { Helpers } from "../indexing/log-cursor.ts";
import type { BuilderThreads } from "../runtime/builders.ts";
import { CheckpointOnDisk } from "../runtime/checkpoint-place.ts";

/** What an updater needs. */
export type UpdaterDependencies = IndexDependencies & {
  /** Of the collection; checkpoints are in it. */
  readonly directory: string;
  readonly builders: BuilderThreads;
  /** Runs work in the background that never rejects. */
  run(act: () => Promise<void>): void;
  /** Reports an error that only costs speed. */
  onProblem(what: string, problem: unknown): void;
};

/** Path of an index's checkpoint. The name of a field never becomes a path. */
export const checkpointPath = (directory: string, kind: IndexKind): string =>
  join(directory, "checkpoints", isMetadataIndex(kind) ? `metadata-${sha256Of(kind)}` : kind);

const sha256Of = (text: string): string => createHash("sha256").update(text).digest("hex");

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

const configurationOf = ({ deciding }: IndexBlueprint): string => sha256Of(JSON.stringify(deciding));

/** How an index is checkpointed, for readers of checkpoints that do not serve the index. */
export function checkpointOf(...of: Parameters<typeof blueprintOf>): {
  configuration: string;
  form: CheckpointAdapter<Index, unknown>;
} {
  const blueprint = blueprintOf(...of);
  return { configuration: configurationOf(blueprint), form: blueprint.checkpoint };
}

/** The updater of an index of a collection. */
export function makeUpdater(
  collection: IndexedCollection,
  kind: IndexKind,
  definitions: IndexDefinitions,
  dependencies: UpdaterDependencies,
): IndexUpdater {
  const { directory, builders, onProblem } = dependencies;
  const blueprint = blueprintOf(collection, kind, definitions, dependencies);
  const checkpointer = new Checkpointer(
    new CheckpointOnDisk(checkpointPath(directory, kind), builders),
    configurationOf(blueprint),
    blueprint.checkpoint,
    (problem) => onProblem(`the checkpoint of the ${kind} index could not be written or read`, problem),
  );
  const helpers = helpersOf(kind, definitionOf(kind, definitions), dependencies);
  return new IndexUpdater(kindNamed(kind), () => blueprint.make(), checkpointer, helpers);
}

function helpersOf(
  kind: IndexKind,
  definition: IndexDefinition,
  { builders, run, wake }: UpdaterDependencies,
): Helpers | undefined {
  const preparation = kindNamed(kind).preparation?.(definition);
  return (
    preparation && {
      preparation,
      analysts: {
        prepare: (records) => preparation.prepare(builders, records),
        onArrival: wake,
        run,
      },
    }
  );
}
