// Is all stored data of a collection intact and consistent?

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Finding } from "@quiver/protocol/shapes/check";
import type { IndexKind } from "@quiver/protocol/shapes/index-definition";
import { text } from "../../base/bytes.ts";
import type { IndexDefinitions } from "../../collection/apply.ts";
import type { CollectionDefinition } from "../../collection/definition.ts";
import { metaKeys } from "../../collection/tables.ts";
import { verifyCollection } from "../../collection/verify.ts";
import { LmdbFile } from "../../storage/lmdb-file.ts";
import { payloadOf } from "../../storage/store.ts";
import { checkpointPath } from "../updaters.ts";
import type { IndexImage } from "./check-messages.ts";
import { checkpointProblem } from "./checkpoint.ts";
import type { Report } from "./report.ts";

export type Place = {
  readonly directory: string;
  readonly name: string;
  /** The definition in the catalog; undefined: use the collection's own copy. */
  readonly definition: CollectionDefinition | undefined;
  /** Of a running server: the files that its indexes were written to. Absent: checkpoints are compared. */
  readonly images?: readonly IndexImage[];
};

/** Adds findings and counts to a report. @param onProgress called with the number of entries read since the last call */
export async function checkCollection(
  place: Place,
  report: Report,
  onProgress: (entries: number) => void = () => {},
): Promise<void> {
  const { name, directory, definition } = place;
  const find = (finding: Finding) => report.add({ ...finding, collection: name });
  if (!existsSync(join(directory, "data.mdb"))) {
    find({ kind: "file", message: "The collection's file data.mdb is missing." });
    return;
  }
  const verified = verifyCollection(directory, { depth: "full", definition, onFinding: find, onProgress });
  const indexes = await checkIndexes(place, definition ?? verified.definition, find);
  report.checked({
    name,
    version: verified.version,
    records: verified.records,
    versions: verified.versions,
    hashes_derived: verified.hashesDerived,
    indexes,
  });
}

/** Compares checkpoints, or the file of an index in memory, with the records. @returns the compared kinds */
async function checkIndexes(
  place: Place,
  definition: CollectionDefinition | undefined,
  find: (finding: Finding) => void,
): Promise<IndexKind[]> {
  const file = new LmdbFile(place.directory);
  try {
    const indexes = definitionsIn(file);
    if (indexes === undefined || definition === undefined) return [];
    const isLive = place.images !== undefined;
    const kinds = Object.keys(indexes) as IndexKind[];
    const images =
      place.images ?? kinds.map((kind) => ({ kind, path: checkpointPath(place.directory, kind) }));
    const compared: IndexKind[] = [];
    for (const { kind, path } of images) {
      if (indexes[kind] === undefined) continue;
      const problem = await checkpointProblem(path, kind, { file, definition, indexes });
      if (problem === false) continue;
      compared.push(kind);
      if (problem !== undefined) find(isLive ? ofMemory(kind, problem) : ofCheckpoint(kind, problem));
    }
    return compared;
  } finally {
    file.close();
  }
}

const ofMemory = (kind: IndexKind, problem: string): Finding => ({
  kind: "index",
  derived: true,
  message: `The ${kind} index in memory does not match the records: ${problem}. Unload and load the collection to build it again.`,
});

const ofCheckpoint = (kind: IndexKind, problem: string): Finding => ({
  kind: "checkpoint",
  derived: true,
  message: `The checkpoint of the ${kind} index does not match the records: ${problem}. A start that detects this rebuilds the index; remove checkpoints/${kind} to force it.`,
});

function definitionsIn(file: LmdbFile): IndexDefinitions | undefined {
  const stored = file.get("meta", metaKeys.indexes);
  const body = stored && payloadOf("meta", metaKeys.indexes, stored);
  return body && (JSON.parse(text(body)) as IndexDefinitions);
}
