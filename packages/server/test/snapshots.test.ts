// How are snapshots created, transferred and restored over HTTP?

import { createHash } from "node:crypto";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type OperationName, operations } from "@quiverdb/engine/operations/operations";
import type { ErrorBody } from "@quiverdb/protocol/errors";
import type { Finding } from "@quiverdb/protocol/shapes/check";
import type { Snapshot } from "@quiverdb/protocol/shapes/snapshot";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readRange } from "../src/file-answer.ts";
import { adminKey, expectError, pathOf, record, startTestServer, type TestServer } from "./running.ts";

let server: TestServer;
const collection_id = "docs";
let snapshot: Snapshot;

beforeAll(async () => {
  server = await startTestServer();
  await server.makeCollection(collection_id);
  await server.call("streamingUpsert", { collection_id }, { vectors: [record("a"), record("b", 2)] });
  const made = await server.call("createSnapshot", { collection_id }, {});
  expect(made.status, made.text).toBe(201);
  snapshot = made.json;
});
afterAll(() => server.end());

const download = (headers: Record<string, string> = {}, id = snapshot.id) =>
  fetch(`${server.url}${pathOf("downloadSnapshot", { collection_id, snapshot_id: id })}`, {
    headers: { authorization: `Bearer ${adminKey}`, ...headers },
  });
const fileOf = async (id = snapshot.id) => Buffer.from(await (await download({}, id)).arrayBuffer());

const upload = (raw: Uint8Array<ArrayBuffer>, type = "application/octet-stream") =>
  server.ask(pathOf("uploadSnapshot"), { method: "POST", raw, headers: { "content-type": type } });

const restore = (name: string, snapshots: string[], overwrite?: boolean) =>
  server.call("restoreCollection", { collection_id: name }, { snapshots, overwrite });

describe("downloads", () => {
  it("[B8] the file is sent with its length and its checksum", async () => {
    const answer = await download();
    const bytes = Buffer.from(await answer.arrayBuffer());
    expect(answer.status).toBe(200);
    expect(bytes).toHaveLength(snapshot.size_bytes);
    const sha256 = createHash("sha256").update(bytes).digest();
    expect(sha256.toString("hex")).toBe(snapshot.sha256);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-length": String(snapshot.size_bytes),
      "content-type": "application/octet-stream",
      "accept-ranges": "bytes",
      "x-quiver-sha256": snapshot.sha256,
      "x-quiver-version": String(snapshot.version_number),
      "x-quiver-hash": snapshot.hash,
      "repr-digest": `sha-256=:${sha256.toString("base64")}:`,
    });
  });

  it("[B8] a range is 206, one beyond the end 416, and an invalid range is ignored", async () => {
    const bytes = await fileOf();
    const part = async (range: string) => {
      const answer = await download({ range });
      return [answer.status, answer.headers.get("content-range"), Buffer.from(await answer.arrayBuffer())];
    };
    const size = bytes.length;
    expect(await part("bytes=100-")).toEqual([206, `bytes 100-${size - 1}/${size}`, bytes.subarray(100)]);
    expect(await part("bytes=0-9")).toEqual([206, `bytes 0-9/${size}`, bytes.subarray(0, 10)]);
    expect(await part("bytes=-7")).toEqual([
      206,
      `bytes ${size - 7}-${size - 1}/${size}`,
      bytes.subarray(-7),
    ]);
    for (const range of ["bytes=", "bytes=5-2", "lines=1-2", "bytes=0-1,3-4"])
      expect((await part(range))[0], range).toBe(200);
    const beyond = await download({ range: `bytes=${size}-` });
    expect(beyond.status).toBe(416);
    expect(beyond.headers.get("content-range")).toBe(`bytes */${size}`);
    expect(((await beyond.json()) as ErrorBody).error.code).toBe("range_not_satisfiable");
    expect(readRange("bytes=0-99", 10)).toEqual([0, 10]);
    expect(readRange("bytes=-99", 10)).toEqual([0, 10]);
    expect(readRange(undefined, 10)).toBeUndefined();
  });
});

describe("uploads and restores", () => {
  it("[B2] what was downloaded can be uploaded to another server and restored there, new or over another", async () => {
    const other = await startTestServer();
    try {
      const sent = await other.ask(pathOf("uploadSnapshot"), {
        method: "POST",
        raw: await fileOf(),
        headers: { "content-type": "application/octet-stream" },
      });
      expect(sent.status, sent.text).toBe(201);
      expect(sent.json).toEqual({ ...snapshot, id: sent.json.id });
      const body = { snapshots: [sent.json.id] };
      const made = await other.call("restoreCollection", { collection_id: "copy" }, body);
      expect([made.status, made.json]).toEqual([
        201,
        {
          name: "copy",
          version_number: snapshot.version_number,
          hash: snapshot.hash,
          vector_count: snapshot.vector_count,
        },
      ]);
      const a = await other.call("getVector", { collection_id: "copy", vector_id: "a" });
      expect(a.text).toBe((await server.call("getVector", { collection_id, vector_id: "a" })).text);
      const found = await other.call(
        "searchDense",
        { collection_id: "copy" },
        { query_vector: [2, 1, 0, 0.5], top_k: 1 },
      );
      expect(found.json.results[0].id).toBe("b");
      await other.call("deleteVector", { collection_id: "copy", vector_id: "a" });
      expectError(
        await other.call("restoreCollection", { collection_id: "copy" }, body),
        409,
        "collection_already_exists",
      );
      const again = await other.call(
        "restoreCollection",
        { collection_id: "copy" },
        { ...body, overwrite: true },
      );
      expect(again.status).toBe(201);
      expect((await other.call("getVector", { collection_id: "copy", vector_id: "a" })).status).toBe(200);
    } finally {
      await other.end();
    }
  });

  it("[B4] truncated, changed or foreign files are rejected with a position, and nothing is stored", async () => {
    const bytes = await fileOf();
    const before = (await server.call("listAllSnapshots")).json;
    const changed = Buffer.from(bytes);
    changed[bytes.length >> 1] ^= 4;
    const cases = [
      ["truncated", bytes.subarray(0, bytes.length - 1)],
      ["damaged", changed],
      ["damaged", Buffer.concat([bytes, bytes])],
      ["foreign", Buffer.from("{}")],
      ["foreign", Buffer.alloc(3_000_000)],
      ["foreign", Buffer.alloc(0)],
    ] as const;
    for (const [fault, raw] of cases) {
      const { details } = expectError(await upload(Uint8Array.from(raw)), 400, "invalid_snapshot");
      expect(details).toMatchObject({ fault, position: expect.any(Number) });
    }
    expectError(await upload(Uint8Array.from(bytes), "application/json"), 415, "unsupported_media_type");
    expect((await server.call("listAllSnapshots")).json).toEqual(before);
  });

  it("[B3] an incremental snapshot can be restored only after its base", async () => {
    await server.makeCollection("log");
    const log = { collection_id: "log" };
    const create = async (body: object) => (await server.call("createSnapshot", log, body)).json;
    await server.call("streamingUpsert", log, { vectors: [record("a"), record("b")] });
    const full = await create({});
    await server.call("streamingUpsert", log, { vectors: [record("b", 5), record("c")] });
    await server.call("deleteVector", { ...log, vector_id: "a" });
    const changes = await create({ since_version: full.version_number, since_hash: full.hash });
    expect(changes).toMatchObject({
      since_version: full.version_number,
      since_hash: full.hash,
      records_stored: 2,
    });
    const restored = await restore("log-2", [full.id, changes.id]);
    expect(restored.json).toMatchObject({ hash: changes.hash, vector_count: 2 });
    const exported = async (name: string) =>
      (await server.call("exportVectors", { collection_id: name })).text;
    expect(await exported("log-2")).toBe(await exported("log"));
    for (const chain of [[changes.id], [full.id, full.id], [snapshot.id, changes.id]])
      expectError(await restore("log-3", chain), 400, "snapshot_chain_broken");
    expectError(await restore("log-3", ["nothing"]), 404, "snapshot_not_found");
    expectError(await restore("a/b", [full.id]), 400, "invalid_name");
    expectError(await restore("log-3", []), 400, "invalid_request");
    expectError(await server.call("getCollection", { collection_id: "log-3" }), 404, "collection_not_found");
    expectError(await server.call("createSnapshot", log, { since_version: 99 }), 400, "invalid_request");
    expectError(await server.call("createSnapshot", log, { since_hash: full.hash }), 400, "invalid_request");
    const wrongHash = { since_version: 1, since_hash: full.hash.replace(/./g, "0") };
    expectError(await server.call("createSnapshot", log, wrongHash), 400, "version_not_kept");
  });
});

it("[B6] snapshots are listed by collection and deleted by id; those of a deleted collection remain", async () => {
  await server.makeCollection("short", { indexes: false });
  const short = { collection_id: "short" };
  const made = (await server.call("createSnapshot", short, {})).json;
  expect((await server.call("getSnapshot", { ...short, snapshot_id: made.id })).json).toEqual(made);
  expectError(
    await server.call("getSnapshot", { collection_id, snapshot_id: made.id }),
    404,
    "snapshot_not_found",
  );
  await server.call("deleteCollection", short);
  expect((await server.call("listSnapshots", short)).json).toEqual({ snapshots: [made], running: [] });
  expect((await server.call("listAllSnapshots")).json.snapshots).toContainEqual(made);
  expect((await server.call("deleteSnapshot", { ...short, snapshot_id: made.id })).status).toBe(204);
  expectError(
    await server.call("deleteSnapshot", { ...short, snapshot_id: made.id }),
    404,
    "collection_not_found",
  );
  expectError(await server.call("listSnapshots", short), 404, "collection_not_found");
  for (const name of Object.keys(operations).filter((each) => /Snapshot|restore/.test(each)))
    expect(
      (
        await server.ask(pathOf(name as OperationName), {
          method: operations[name as OperationName].method,
          key: null,
        })
      ).status,
    ).toBe(401);
});

it("[B10] [Z1] a damaged or missing file is reported by list, get and check, and its download is data_corrupted before any byte", async () => {
  await server.makeCollection("hurt", { indexes: false });
  const hurt = { collection_id: "hurt" };
  const [flipped, gone] = [
    (await server.call("createSnapshot", hurt, {})).json as Snapshot,
    (await server.call("createSnapshot", hurt, {})).json as Snapshot,
  ];
  const fileOfIt = ({ id }: Snapshot) => join(server.dataDir, "snapshots", `${id}.qbackup`);
  const bytes = readFileSync(fileOfIt(flipped));
  bytes[bytes.length - 100] ^= 1;
  writeFileSync(fileOfIt(flipped), bytes);
  rmSync(fileOfIt(gone));
  const downloaded = (id: string) => server.call("downloadSnapshot", { ...hurt, snapshot_id: id });
  expectError(await downloaded(gone.id), 500, "data_corrupted");
  // Its header is intact: the fault shows only at the end, before which the download stops.
  expectError(await downloaded(flipped.id), 500, "data_corrupted");
  const kindOf = ({ kind, snapshot_id }: Finding) => `${kind} ${snapshot_id}`;
  for (const check of [
    await server.call("checkSnapshots", hurt, undefined),
    await server.call("checkAllSnapshots", {}, undefined),
  ])
    expect(check.json.findings.map(kindOf).sort()).toEqual(
      [`snapshot ${flipped.id}`, `snapshot_missing ${gone.id}`].sort(),
    );
  expectError(await downloaded(flipped.id), 500, "data_corrupted");
  expectError(await restore("hurt-2", [flipped.id]), 500, "data_corrupted");
  const { snapshots } = (await server.call("listSnapshots", hurt)).json as { snapshots: Snapshot[] };
  expect(snapshots.map(({ damaged }) => typeof damaged)).toEqual(["string", "string"]);
  for (const { id } of [flipped, gone]) {
    const told = await server.call("getSnapshot", { ...hurt, snapshot_id: id });
    expect(told.json).toMatchObject({ damaged: expect.any(String) });
    expect((await server.call("deleteSnapshot", { ...hurt, snapshot_id: id })).status).toBe(204);
  }
  expect((await server.call("checkSnapshots", hurt, undefined)).json).toMatchObject({ findings: [] });
});

it("[A10] a key that is limited to a collection cannot restore snapshots of another one", async () => {
  await server.makeCollection("mine", { indexes: false });
  const own = (await server.call("createSnapshot", { collection_id: "mine" }, {})).json as Snapshot;
  const limited = { name: "limited", role: "admin", collections: ["mine*"] };
  const { key } = (await server.call("createKey", {}, limited)).json;
  const restored = (name: string, id: string) =>
    server.ask(pathOf("restoreCollection", { collection_id: name }), {
      method: "POST",
      body: { snapshots: [id] },
      key,
    });
  expectError(await restored("mine-too", snapshot.id), 404, "snapshot_not_found");
  expectError(await restored("other", own.id), 403, "forbidden");
  expect((await restored("mine-too", own.id)).status).toBe(201);
});
