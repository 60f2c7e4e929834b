// How are snapshots made, listed, moved and restored over HTTP?

import { Readable } from "node:stream";
import { FileAnswer } from "../file-answer.ts";
import { json } from "../json-answer.ts";
import type { Handlers } from "./handlers.ts";

export const snapshotHandlers: Handlers<
  | "createSnapshot"
  | "listSnapshots"
  | "listAllSnapshots"
  | "uploadSnapshot"
  | "getSnapshot"
  | "downloadSnapshot"
  | "deleteSnapshot"
  | "restoreCollection"
> = {
  createSnapshot: async ({ database, params, body }) =>
    json(await database.snapshots.create(params.collection_id, body)),
  listSnapshots: ({ database, params }) => json(database.snapshots.list(params.collection_id)),
  listAllSnapshots: ({ database }) => json(database.snapshots.listAll()),
  async uploadSnapshot({ database, body }) {
    const request = body ?? Readable.from([]);
    try {
      // What is refused half-way flows into nothing, so that the client can read the answer.
      return json(await database.snapshots.receive(request.iterator({ destroyOnReturn: false })));
    } catch (error) {
      request.on("error", () => undefined).resume();
      throw error;
    }
  },
  getSnapshot: ({ database, params }) =>
    json(database.snapshots.get(params.collection_id, params.snapshot_id)),
  downloadSnapshot({ database, params }) {
    const { snapshot, stream } = database.snapshots.read(params.collection_id, params.snapshot_id);
    const { id, sha256, size_bytes, version_number, hash } = snapshot;
    const headers = {
      etag: `"${sha256}"`,
      "content-disposition": `attachment; filename="quiver-${id}.qbackup"`,
      "repr-digest": `sha-256=:${Buffer.from(sha256, "hex").toString("base64")}:`,
      "x-quiver-sha256": sha256,
      "x-quiver-version": String(version_number),
      "x-quiver-hash": hash,
    };
    return new FileAnswer(size_bytes, headers, stream);
  },
  deleteSnapshot: ({ database, params }) =>
    database.snapshots.delete(params.collection_id, params.snapshot_id),
  async restoreCollection({ database, access, params, body }) {
    // A key that is limited to collections must not read another one through its snapshot.
    for (const { id, collection_name } of database.snapshots.listAll().snapshots)
      if (body.snapshots.includes(id)) access.requireCollection(collection_name);
    return json(await database.restoreCollection(params.collection_id, body));
  },
};
