// Whose are cursors, and what do they tell?

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { adminKey, expectError, pathOf, record, startTestServer, type TestServer } from "./running.ts";

const ids = Array.from({ length: 9 }, (_, i) => `secret-id-${i}`);

async function fill(server: TestServer, name: string): Promise<void> {
  await server.makeCollection(name, { indexes: false });
  const written = await server.call(
    "streamingUpsert",
    { collection_id: name },
    { vectors: ids.map((id) => record(id)) },
  );
  expect(written.status, written.text).toBe(200);
}

const scroll = (server: TestServer, key: string, name: string, cursor: string | null = null) =>
  server.ask(pathOf("scrollVectors", { collection_id: name }), { body: { cursor, limit: 4 }, key });

test("[W18] a cursor is opaque, serves only the key and the collection that got it, and survives a restart", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "quiver-cursors-"));
  let server = await startTestServer({ dataDir });
  try {
    for (const name of ["a", "b"]) await fill(server, name);
    const [one, other] = await Promise.all(
      ["one", "other"].map(async (name): Promise<string> => {
        return (await server.call("createKey", {}, { name, role: "read" })).json.key;
      }),
    );
    const cursorOf = async (key: string) => (await scroll(server, key, "a")).json.next_cursor as string;
    const cursor = await cursorOf(one);
    expect(await cursorOf(one)).not.toBe(cursor);
    expect(cursor).toMatch(/^[\w-]+$/);
    for (const form of [cursor, Buffer.from(cursor, "base64url").toString("latin1")])
      expect(form).not.toContain("secret");

    const goesOn = async (key: string, given: string) => {
      const { status, text, json } = await scroll(server, key, "a", given);
      expect(status, text).toBe(200);
      expect(json.vectors.map(({ id }: { id: string }) => id)).toEqual(ids.slice(4, 8));
    };
    const isRefused = async (key: string, name: string, given: string) => {
      const answer = await scroll(server, key, name, given);
      expectError(answer, 400, "invalid_request");
      expect(answer.json.error.details).toEqual({ path: "cursor" });
    };
    await goesOn(one, cursor);
    for (const key of [other, adminKey]) await isRefused(key, "a", cursor);
    await isRefused(one, "b", cursor);
    for (const at of [0, 12, 30, cursor.length - 2]) {
      const changed = cursor.at(at) === "A" ? "B" : "A";
      await isRefused(one, "a", `${cursor.slice(0, at)}${changed}${cursor.slice(at + 1)}`);
    }

    // A session is the admin key's, however often it logs in.
    const logIn = async (): Promise<string> =>
      (
        await server.ask("/auth/create-session", {
          body: { username: "admin", password: adminKey },
          key: null,
        })
      ).json.access_token;
    await goesOn(await logIn(), await cursorOf(await logIn()));

    await server.close();
    server = await startTestServer({ dataDir });
    await goesOn(one, cursor);

    expect((await server.call("deleteCollection", { collection_id: "a" })).status).toBe(204);
    await fill(server, "a");
    await isRefused(one, "a", cursor);
    await goesOn(one, await cursorOf(one));
  } finally {
    await server.close();
    await rm(dataDir, { recursive: true, force: true });
  }
});
