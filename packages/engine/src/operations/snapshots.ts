// Which operations are there on snapshots?

import * as check from "@quiverdb/protocol/shapes/check";
import * as snapshot from "@quiverdb/protocol/shapes/snapshot";
import { collectionPath, operation } from "./operation.ts";

export const snapshots = {
  createSnapshot: operation(
    {
      // A repeated request would create a second snapshot; a repeated restore is rejected or has the same effect.
      method: "POST",
      path: `${collectionPath}/snapshots`,
      repeat: "refused",
      work: "administration",
      role: "write",
      audited: ["since_version", "since_hash"],
      auditedAnswer: { snapshot_id: "id", version_number: "version_number", hash: "hash" },
      tag: "Snapshots",
      summary:
        "Create a snapshot of the current version, full or incremental, while writes and searches continue",
      body: snapshot.CreateSnapshot,
      status: 201,
      answer: snapshot.Snapshot,
      errors: [400, 404, 500, 507],
    },
    ({ database, params, body }) => database.snapshots.create(params.collection_id, body),
    {},
    { since_version: 1 },
  ),
  listSnapshots: operation(
    {
      method: "GET",
      path: `${collectionPath}/snapshots`,
      role: "read",
      tag: "Snapshots",
      summary: "List the snapshots of a collection, including a deleted one",
      answer: snapshot.SnapshotList,
      errors: [404, 500],
    },
    ({ database, params }) => database.snapshots.list(params.collection_id),
  ),
  listAllSnapshots: operation(
    {
      method: "GET",
      path: "/vectordb/snapshots",
      role: "admin",
      tag: "Snapshots",
      summary: "List all snapshots",
      answer: snapshot.SnapshotList,
      errors: [500],
    },
    ({ database }) => database.snapshots.listAll(),
  ),
  uploadSnapshot: operation(
    {
      method: "POST",
      path: "/vectordb/snapshots",
      repeat: "refused",
      work: "administration",
      role: "admin",
      audited: [],
      auditedAnswer: {
        collection_id: "collection_name",
        snapshot_id: "id",
        version_number: "version_number",
        hash: "hash",
      },
      tag: "Snapshots",
      summary:
        "Upload a snapshot file; it is verified and listed under the collection that it was taken from",
      upload: true,
      status: 201,
      answer: snapshot.Snapshot,
      errors: [400, 415, 500, 507],
    },
    ({ database, upload }) => database.snapshots.receive(upload),
  ),
  checkSnapshots: operation(
    {
      method: "POST",
      path: `${collectionPath}/snapshots/check`,
      work: "administration",
      role: "admin",
      tag: "Snapshots",
      summary: "Check the snapshot files of a collection, including a deleted one",
      answer: check.CheckReport,
      errors: [404, 500, 503],
    },
    ({ database, params }) => database.snapshots.check(params.collection_id),
  ),
  checkAllSnapshots: operation(
    {
      method: "POST",
      path: "/vectordb/snapshots/check",
      work: "administration",
      role: "admin",
      tag: "Snapshots",
      summary: "Check all snapshot files, and any other files in their directory",
      answer: check.CheckReport,
      errors: [500, 503],
    },
    ({ database }) => database.snapshots.check(),
  ),
  getSnapshot: operation(
    {
      method: "GET",
      path: `${collectionPath}/snapshots/{snapshot_id}`,
      role: "read",
      tag: "Snapshots",
      summary: "Get snapshot",
      answer: snapshot.Snapshot,
      errors: [404, 500],
    },
    ({ database, params }) => database.snapshots.get(params.collection_id, params.snapshot_id),
  ),
  downloadSnapshot: operation(
    {
      method: "GET",
      path: `${collectionPath}/snapshots/{snapshot_id}/download`,
      role: "read",
      tag: "Snapshots",
      summary: "Download a snapshot file; supports Range, and header x-quiver-sha256 has its SHA-256",
      answer: snapshot.SnapshotBytes,
      mediaType: "application/octet-stream",
      errors: [404, 416, 500],
    },
    ({ database, params }) => database.snapshots.read(params.collection_id, params.snapshot_id),
  ),
  deleteSnapshot: operation(
    {
      method: "DELETE",
      path: `${collectionPath}/snapshots/{snapshot_id}`,
      done: "snapshot_not_found",
      work: "administration",
      role: "admin",
      audited: [],
      tag: "Snapshots",
      summary: "Delete snapshot",
      status: 204,
      errors: [404, 500],
    },
    ({ database, params }) => database.snapshots.delete(params.collection_id, params.snapshot_id),
  ),
  restoreCollection: operation(
    {
      once: true,
      method: "POST",
      path: `${collectionPath}/restore`,
      repeat: "refused",
      work: "administration",
      role: "admin",
      audited: ["snapshots", "overwrite"],
      auditedAnswer: { version_number: "version_number", hash: "hash" },
      tag: "Snapshots",
      summary: "Restore snapshots as a collection of this name, new or replaced in one step",
      body: snapshot.RestoreCollection,
      status: 201,
      answer: snapshot.RestoredCollection,
      errors: [400, 404, 409, 500, 507],
    },
    ({ database, params, body, reaches, options }) =>
      // A key that is limited to collections must not read another collection through its snapshot, nor learn that it exists.
      database.restoreCollection(
        params.collection_id,
        body,
        ({ collection_name }) => reaches(collection_name),
        options,
      ),
    { snapshots: ["<the id of a full snapshot>", "<that of an incremental one>"], overwrite: true },
  ),
};
