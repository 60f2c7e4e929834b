// How are snapshots created, listed, transferred and restored over HTTP?

import { Readable } from "node:stream";
import type { Snapshot } from "@quiverdb/protocol/shapes/snapshot";
import type { Access } from "../auth/access.ts";
import { FileAnswer } from "../file-answer.ts";
import { json } from "../json-answer.ts";
import type { Handlers } from "./handlers.ts";

export const snapshotHandlers: Handlers<
  | "createSnapshot"
  | "listSnapshots"
  | "listAllSnapshots"
  | "checkSnapshots"
  | "checkAllSnapshots"
  | "uploadSnapshot"
  | "getSnapshot"
  | "downloadSnapshot"
  | "deleteSnapshot"
  | "restoreCollection"
> = {
  async createSnapshot({ database, params, body, names }) {
    const snapshot = await database.snapshots.create(params.collection_id, body);
    Object.assign(names, identityOf(snapshot));
    return json(snapshot);
  },
  listSnapshots: ({ database, params }) => json(database.snapshots.list(params.collection_id)),
  listAllSnapshots: ({ database }) => json(database.snapshots.listAll()),
  checkSnapshots: async ({ database, params }) => json(await database.snapshots.check(params.collection_id)),
  checkAllSnapshots: async ({ database }) => json(await database.snapshots.check()),
  async uploadSnapshot({ database, access, body, names }) {
    const request = body ?? Readable.from([]);
    // A rejected upload is not destroyed, so that the client can read the response (request/early-answer.ts).
    const chunks = request.iterator({ destroyOnReturn: false });
    const snapshot = await database.snapshots.receive(whileValid(access, chunks));
    Object.assign(names, { collection_id: snapshot.collection_name, ...identityOf(snapshot) });
    return json(snapshot);
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
  async restoreCollection({ database, access, params, body, names }) {
    // A key that is limited to collections must not read another collection through its snapshot, nor learn that it exists.
    const reaches = (snapshot: Snapshot) => access.reaches(snapshot.collection_name);
    const restored = await database.restoreCollection(params.collection_id, body, reaches);
    Object.assign(names, versionOf(restored));
    return json(restored);
  },
};

/** A body that ends with an error if the key was revoked or has expired while the body arrived. */
async function* whileValid<T>(access: Access, source: AsyncIterable<T>): AsyncGenerator<T> {
  for await (const chunk of source) {
    access.requireValid();
    yield chunk;
  }
  access.requireValid();
}

/** The audit log's details of a snapshot or a restore. */
const versionOf = ({ version_number, hash }: Pick<Snapshot, "version_number" | "hash">) => ({
  version_number: String(version_number),
  hash,
});
const identityOf = (snapshot: Snapshot) => ({ snapshot_id: snapshot.id, ...versionOf(snapshot) });
