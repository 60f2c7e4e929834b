// Which snapshots exist, which are being made, and which of them are damaged?
//
// At start each file's length and header are compared with its entry; a check, a download or a restore reads the rest. A snapshot that is
// known to be damaged is listed as such, so that users do not rely on it, and can be deleted.

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { CheckReport } from "@quiverdb/protocol/shapes/check";
import type { RunningSnapshot, Snapshot, SnapshotList } from "@quiverdb/protocol/shapes/snapshot";
import type { DatabaseLog } from "../contract.ts";
import type { SnapshotDirectory } from "./snapshot-directory.ts";

export class KnownSnapshots {
  readonly #directory: SnapshotDirectory;
  readonly #log: DatabaseLog;
  readonly #snapshots = new Map<string, Snapshot>();
  /** Those that are being made, by id. */
  readonly running = new Map<string, RunningSnapshot>();

  constructor(directory: SnapshotDirectory, log: DatabaseLog) {
    this.#directory = directory;
    this.#log = log;
  }

  get ids(): string[] {
    return [...this.#snapshots.keys()];
  }

  get(id: string): Snapshot | undefined {
    return this.#snapshots.get(id);
  }

  /** Adds a snapshot whose file and entry exist. */
  add(snapshot: Snapshot): void {
    this.#snapshots.set(snapshot.id, snapshot);
  }

  delete(id: string): void {
    this.#snapshots.delete(id);
  }

  /** Marks a snapshot whose file is missing or obviously a different one. @returns the problem */
  look(snapshot: Snapshot): string | undefined {
    const problem = snapshot.damaged ?? this.#directory.problemOf(snapshot);
    if (problem !== undefined && snapshot.damaged === undefined) this.mark(snapshot.id, problem);
    return problem;
  }

  /** Marks a snapshot as damaged. */
  mark(id: string, problem: string): void {
    const snapshot = this.#snapshots.get(id);
    if (snapshot === undefined || snapshot.damaged === problem) return;
    this.#snapshots.set(id, { ...snapshot, damaged: problem });
    this.#log.error({ snapshot: id, problem }, "a snapshot is damaged");
  }

  /** @throws data_corrupted */
  requireIntact(snapshot: Snapshot): void {
    const problem = this.look(snapshot);
    if (problem !== undefined) throw damaged(snapshot.id, problem);
  }

  /** Marks snapshots that a check has found damaged, and unmarks intact ones. @param ids of the snapshots that existed before the check */
  believe({ findings }: CheckReport, ids: readonly string[], name: string | undefined): void {
    const problems = new Map<string, string>();
    for (const { snapshot_id, kind, derived, message } of findings)
      if (snapshot_id !== undefined && kind !== "snapshot_chain" && !derived)
        problems.set(snapshot_id, message);
    for (const id of ids) {
      const snapshot = this.#snapshots.get(id);
      if (snapshot === undefined || (name !== undefined && snapshot.collection_name !== name)) continue;
      const problem = problems.get(id);
      if (problem !== undefined) this.mark(id, problem);
      else if (snapshot.damaged !== undefined) {
        const { damaged: _, ...whole } = snapshot;
        this.#snapshots.set(id, whole);
      }
    }
  }

  /** Publishes a file that is complete, under its unfinished name, as a snapshot. */
  publish(snapshot: Snapshot): Snapshot {
    this.#directory.publish(snapshot);
    this.#snapshots.set(snapshot.id, snapshot);
    return snapshot;
  }

  /** @throws invalid_request where a collection has as many snapshots as it may */
  requireRoom(name: string): void {
    const { snapshots, running } = this.of(name);
    if (snapshots.length + running.length < limits.snapshotsPerCollectionMax) return;
    throw new QuiverError(
      "invalid_request",
      `The collection '${name}' has ${snapshots.length} snapshots, which is the limit. Delete some first.`,
      { path: "collection_id", limit: limits.snapshotsPerCollectionMax },
    );
  }

  /** Those of a collection. */
  of(name: string): SnapshotList {
    const isOfIt = (snapshot: { collection_name: string }) => snapshot.collection_name === name;
    const { snapshots, running } = this.all();
    return { snapshots: snapshots.filter(isOfIt), running: running.filter(isOfIt) };
  }

  /** By time. */
  all(): SnapshotList {
    const snapshots = [...this.#snapshots.values()].sort(
      (a, b) => a.timestamp - b.timestamp || a.version_number - b.version_number || (a.id < b.id ? -1 : 1),
    );
    return { snapshots, running: [...this.running.values()].map((running) => ({ ...running })) };
  }

  /** The files of a chain, in its order. @throws snapshot_not_found, data_corrupted */
  pathsOf(ids: readonly string[], reaches: (snapshot: Snapshot) => boolean = () => true): string[] {
    return ids.map((id, i) => {
      const snapshot = this.#snapshots.get(id);
      if (snapshot === undefined || !reaches(snapshot)) throw notFound(id, `snapshots[${i}]`);
      this.requireIntact(snapshot);
      return this.#directory.pathOf(id);
    });
  }
}

/** The error for a snapshot that does not exist. */
export function notFound(id: string, path = "snapshot_id"): QuiverError {
  return new QuiverError(
    "snapshot_not_found",
    `There is no snapshot '${id.slice(0, 80)}' (${path}). All are listed by listSnapshots, GET /vectordb/snapshots.`,
    { path, snapshot_id: id.slice(0, 80) },
  );
}

/** The error for a snapshot that is damaged. */
export function damaged(id: string, problem: string): QuiverError {
  return new QuiverError(
    "data_corrupted",
    `The snapshot '${id}' is damaged: ${problem} Delete it, and make or upload another one.`,
    { snapshot_id: id },
  );
}
