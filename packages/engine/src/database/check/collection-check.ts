// How is one collection checked: its store, its versions, and its indexes?

import { existsSync } from "node:fs";
import { join } from "node:path";
import { limits } from "@quiverdb/protocol/limits";
import type { CheckReport, Finding, NotCompared } from "@quiverdb/protocol/shapes/check";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { text } from "../../base/bytes.ts";
import type { IndexDefinitions } from "../../collection/apply.ts";
import type { CollectionDefinition } from "../../collection/definition.ts";
import { metaKeys } from "../../collection/tables.ts";
import { verifyCollection } from "../../collection/verify.ts";
import { LmdbFile } from "../../storage/lmdb-file.ts";
import { checkpointPath } from "../updaters.ts";
import { checkpointProblem } from "./checkpoint.ts";
import type { IndexImage } from "./live.ts";

type Place = {
  readonly directory: string;
  readonly name: string;
  /** The definition in the catalog; undefined: the collection's own copy is used. */
  readonly definition: CollectionDefinition | undefined;
  /** Files with the indexes of a running server. Absent: the check compares checkpoints. */
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
    indexes: [...indexes.compared],
    // Of a running server, the thread that has the indexes says why (database/collection/checks.ts).
    indexes_not_compared: [...indexes.others],
  });
}

type Indexes = { readonly compared: readonly IndexKind[]; readonly others: readonly NotCompared[] };

/** Compares checkpoints, or the files of indexes in memory, with the records. @returns the kinds that were compared, and the others */
async function checkIndexes(
  place: Place,
  definition: CollectionDefinition | undefined,
  find: (finding: Finding) => void,
): Promise<Indexes> {
  const file = new LmdbFile(place.directory);
  try {
    const indexes = definitionsIn(file);
    if (indexes === undefined || definition === undefined) return { compared: [], others: [] };
    const isLive = place.images !== undefined;
    const kinds = Object.keys(indexes) as IndexKind[];
    const images =
      place.images ?? kinds.map((kind) => ({ kind, path: checkpointPath(place.directory, kind) }));
    const compared: IndexKind[] = [];
    const others: NotCompared[] = [];
    for (const { kind, path } of images) {
      if (indexes[kind] === undefined) continue;
      const problem = await checkpointProblem(path, kind, { file, definition, indexes });
      if (problem === false) {
        others.push({ index: kind, reason: existsSync(path) ? otherCheckpoint : noCheckpoint });
        continue;
      }
      compared.push(kind);
      if (problem !== undefined) find(isLive ? ofMemory(kind, problem) : ofCheckpoint(kind, problem));
    }
    return { compared, others };
  } finally {
    file.close();
  }
}

const noCheckpoint =
  "it has no checkpoint: it is small, or none was due yet. The next start builds it from the records";
const otherCheckpoint =
  "its checkpoint is of another definition, version or program. The next start does not use it, and builds the index from the records";

const ofMemory = (kind: IndexKind, problem: string): Finding => ({
  kind: "index",
  derived: true,
  message: `The ${kind} index in memory disagrees with the records: ${problem}. Unload and load the collection to rebuild it.`,
});

const ofCheckpoint = (kind: IndexKind, problem: string): Finding => ({
  kind: "checkpoint",
  derived: true,
  message: `The checkpoint of the ${kind} index disagrees with the records: ${problem}. Remove checkpoints/${kind}; the next start then rebuilds the index.`,
});

function definitionsIn(file: LmdbFile): IndexDefinitions | undefined {
  const body = file.get("meta", metaKeys.indexes);
  return body && (JSON.parse(text(body)) as IndexDefinitions);
}

// ---- What did a check find and read?

/** What was checked of a collection. */
type CheckedCollection = CheckReport["collections"][number];

/** Collects findings, up to a limit. */
export class Report {
  readonly #findings: Finding[] = [];
  readonly #collections: CheckedCollection[] = [];
  readonly #onFinding: (finding: Finding) => void;
  total = 0;
  /** Snapshot files that were read completely. */
  snapshots = 0;

  /** @param onFinding called for each finding, also beyond the limit */
  constructor(onFinding: (finding: Finding) => void = () => {}) {
    this.#onFinding = onFinding;
  }

  add(finding: Finding): void {
    this.total++;
    if (this.#findings.length < limits.findingsMax) this.#findings.push(finding);
    this.#onFinding(finding);
  }

  checked(collection: CheckedCollection): void {
    this.#collections.push(collection);
  }

  toShape(): CheckReport {
    return {
      findings: this.#findings,
      findings_total: this.total,
      collections: this.#collections,
      snapshots: this.snapshots,
    };
  }
}
