// Keys with a filter: does anything that they can ask tell of other records, and can they change any?

import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import type { KeyCreated } from "@quiverdb/protocol/shapes/key";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type Asked,
  anyRead,
  anyWrite,
  comparable,
  randomOf,
  records,
  type TestRecord,
  tenantFilter,
} from "./hidden-records.ts";
import { shards } from "./nodes.ts";
import { type Answer, adminKey, expectError, pathOf, startTestServer, type TestServer } from "./running.ts";

const seed = 20_260;
const filtered = (Object.keys(operations) as OperationName[]).filter(
  (name) => (operations[name] as Operation).keyFilter === "filtered",
);

/** What tells of all records, or changes what others use. A new route is here, or declares what it does for such keys. */
const closed: readonly OperationName[] = [
  "createCollection",
  "patchCollection",
  "copyCollection",
  "mergeCollection",
  "listAliases",
  "putAlias",
  "deleteAlias",
  "deleteCollection",
  "checkCollection",
  "loadCollection",
  "unloadCollection",
  "createDenseIndex",
  "createSparseIndex",
  "createTextIndex",
  "getIndexes",
  "measureRecall",
  "deleteIndex",
  "createMetadataIndex",
  "getMetadataIndexes",
  "deleteMetadataIndex",
  "vectorHistory",
  "listVersions",
  "currentVersion",
  "getVersion",
  "putCurrentVersion",
  "putCurrentVersionByHash",
  "restoreVersion",
  "diffVersions",
  "readChanges",
  "putTag",
  "deleteTag",
  "createSnapshot",
  "listSnapshots",
  "listAllSnapshots",
  "uploadSnapshot",
  "checkSnapshots",
  "checkAllSnapshots",
  "getSnapshot",
  "downloadSnapshot",
  "deleteSnapshot",
  "restoreCollection",
  "createKey",
  "listKeys",
  "revokeKey",
  "readAudit",
];

let server: TestServer;
let key: string;
let all: TestRecord[];
const asked = new Set<OperationName>();

async function makeKey(body: object): Promise<KeyCreated> {
  const answer = await server.call("createKey", {}, { name: "limited", ...body });
  expect(answer.status, answer.text).toBe(201);
  return answer.json;
}

const callAs = (
  secret: string,
  { name, params = {}, body, query = "" }: Asked,
  collection: string,
): Promise<Answer> => {
  if (secret === key) asked.add(name);
  return server.ask(`${pathOf(name, { collection_id: collection, ...params })}${query}`, {
    method: operations[name].method,
    body,
    key: secret,
  });
};
const limited = (request: Asked, collection = "mixed") => callAs(key, request, collection);

/** A key with a filter writes nothing to several shards, which packages/engine/test/shards shows. */
const testOfWrites = test.skipIf(shards > 1);

/** What an answer says, without the name of the collection and times. */
const said = ({ status, text, headers }: Answer) => ({
  status,
  // Of several shards, the records of one version are exported shard by shard.
  text: shards > 1 ? comparable(text).split("\n").sort().join("\n") : comparable(text),
  version: headers.get("x-quiver-version"),
  count: headers.get("x-quiver-count"),
});

/** Asks both collections; the answers must be equal. */
async function expectSame(request: Asked): Promise<Answer> {
  const [mixed, alone] = [await limited(request), await limited(request, "alone")];
  expect(said(mixed), JSON.stringify(request)).toEqual(said(alone));
  return mixed;
}

/** Everything that hidden records are. */
async function hiddenRecords(): Promise<string> {
  const filter = encodeURIComponent(JSON.stringify({ not: tenantFilter }));
  return (await callAs(adminKey, { name: "exportVectors", query: `?filter=${filter}` }, "mixed")).text;
}

beforeAll(async () => {
  server = await startTestServer();
  key = (await makeKey({ role: "write", filter: tenantFilter })).key;
  all = records(randomOf(seed), 400);
  for (const name of ["mixed", "alone"]) {
    const vectors = all.filter(({ metadata }) => name === "mixed" || metadata.tenant === "a");
    await server.makeCollection(name);
    for (const [field, type] of [
      ["n", "number"],
      ["color", "keyword"],
    ])
      await server.call("createMetadataIndex", { collection_id: name, field }, { type });
    for (let from = 0; from < vectors.length; from += 100)
      expect(
        (
          await server.call(
            "streamingUpsert",
            { collection_id: name },
            { vectors: vectors.slice(from, from + 100) },
          )
        ).status,
      ).toBe(200);
  }
});
afterAll(() => server.end());

describe("a key with a filter", () => {
  test("[A21] gets, to whatever it asks, the answers of a collection that has no other records", async () => {
    const random = randomOf(seed + 1);
    const ids = all.map(({ id }) => id);
    let results = 0;
    for (let i = 0; i < 700; i++) {
      const { text } = await expectSame(anyRead(random, ids));
      expect(text).not.toMatch(/"tenant":"[bc]"/);
      results += text.split('"score"').length - 1;
    }
    // Not all of them are errors, or empty.
    expect(results).toBeGreaterThan(2_000);
  });

  test("[A21] pages through the records that it sees, and not with cursors of others", async () => {
    for (const order_by of [null, { field: "n" }]) {
      const ids: string[] = [];
      for (let cursors: [string | null, string | null] = [null, null]; ; ) {
        const [page, alone]: Answer[] = await Promise.all(
          ["mixed", "alone"].map((collection, i) =>
            limited({ name: "scrollVectors", body: { cursor: cursors[i], order_by, limit: 17 } }, collection),
          ),
        );
        expect(said(page)).toEqual(said(alone));
        for (const { id } of page.json.vectors) ids.push(id);
        cursors = [page.json.next_cursor, alone.json.next_cursor];
        if (cursors[0] === null) break;
      }
      expect(ids.sort()).toEqual(
        all
          .filter(({ metadata }) => metadata.tenant === "a")
          .map(({ id }) => id)
          .sort(),
      );
      const others = await callAs(
        adminKey,
        { name: "scrollVectors", body: { order_by, limit: 50 } },
        "mixed",
      );
      const refused = await expectSame({
        name: "scrollVectors",
        body: { cursor: others.json.next_cursor, order_by, limit: 5 },
      });
      expectError(refused, 400, "invalid_request");
    }
  });

  testOfWrites(
    "[A22] changes only records that it sees, and writes only records that it can see",
    async () => {
      const before = await hiddenRecords();
      const random = randomOf(seed + 2);
      const ids = all.map(({ id }) => id);
      const statuses = new Set<number>();
      for (let i = 0; i < 150; i++) {
        statuses.add((await expectSame(anyWrite(random, ids, i))).status);
        if (i % 3 === 0) await expectSame(anyRead(random, ids));
      }
      expect([...statuses].sort()).toEqual([200, 204, 400, 403, 404]);
      expect(await hiddenRecords()).toBe(before);
      await expectSame({ name: "exportVectors" });
    },
  );

  testOfWrites(
    "[A22] cannot take the id of a hidden record, and learns nothing from a record that it must not write anyway",
    async () => {
      const hidden = all.find(({ id }) => id.startsWith("h")) as TestRecord;
      const before = await hiddenRecords();
      const own = { id: "mine", text: "fox", metadata: { tenant: "a" } };
      const taken = await limited({
        name: "streamingUpsert",
        body: { vectors: [own, { ...own, id: hidden.id }] },
      });
      expect(expectError(taken, 403, "forbidden").message).toMatch(
        /^vectors\[1\]\.id is not available to the key/,
      );
      expect((await limited({ name: "vectorExists", params: { vector_id: "mine" } })).status).toBe(404);
      const answers = [hidden.id, "no such record"].map((id) =>
        limited({
          name: "streamingUpsert",
          body: { vectors: [own, { id, text: "fox", metadata: { tenant: "b" } }] },
        }),
      );
      const [existing, missing] = await Promise.all(answers);
      expect(expectError(existing, 403, "forbidden").details).toEqual({ path: "vectors[1]" });
      expect(existing.text).toBe(missing.text);
      expect(await hiddenRecords()).toBe(before);
    },
  );

  testOfWrites("[A22] never replaces a record of others, whichever write comes first", async () => {
    await server.makeCollection("race");
    const write = (tenant: string, secret: string, i: number) => {
      const body = { vectors: [{ id: `r${i}`, text: "fox", metadata: { tenant } }] };
      return callAs(secret, { name: "streamingUpsert", body }, "race");
    };
    const refused = new Set<boolean>();
    for (let i = 0; i < 60; i++) {
      const writes = [() => write("b", adminKey, i), () => write("a", key, i)];
      if (i % 2 === 0) writes.reverse();
      const answers = await Promise.all(writes.map((each) => each()));
      refused.add(answers.some(({ status }) => status === 403));
    }
    const facets = await callAs(adminKey, { name: "facetVectors", body: { field: "tenant" } }, "race");
    expect(facets.json.facets).toEqual([{ value: "b", count: 60 }]);
    // The key was second at least once.
    expect(refused.has(true)).toBe(true);
  });

  testOfWrites(
    "[A22] obeys the same rules in transactions, also when a record is hidden only at the commit",
    async () => {
      const before = await hiddenRecords();
      const begun = await limited({ name: "createTransaction" });
      const params = { transaction_id: begun.json.transaction_id as string };
      const add = (body: object) => limited({ name: "addVector", params, body });
      expect((await add({ id: "t1", text: "fox", metadata: { tenant: "a" } })).status).toBe(200);
      expect(
        expectError(await add({ id: "t2", text: "fox", metadata: { tenant: "b" } }), 403).message,
      ).toMatch(/^The record does not match/);
      const hidden = all.find(({ id }) => id.startsWith("h")) as TestRecord;
      expect(
        expectError(await add({ id: hidden.id, text: "fox", metadata: { tenant: "a" } }), 403).message,
      ).toMatch(/^The record's id is not available/);
      const vectors = [
        { id: "t3", text: "fox", metadata: { tenant: "a" } },
        { id: "t4", text: "fox" },
      ];
      expect(
        expectError(await limited({ name: "upsertVectors", params, body: { vectors } }), 403).details.path,
      ).toBe("vectors[1]");
      const deleted = (vector_id: string) =>
        limited({ name: "deleteVectorInTransaction", params: { ...params, vector_id } });
      expectError(await deleted(hidden.id), 400, "vector_not_found");
      expect((await deleted("t1")).status).toBe(204);
      expect((await add({ id: "t5", text: "fox", metadata: { tenant: "a" } })).status).toBe(200);
      expect(
        (await limited({ name: "getTransactionStatus", params })).json.status.NotStarted.stats,
      ).toMatchObject({ records_upserted: 2 });

      // Another key writes a hidden record with a staged id.
      const other = { vectors: [{ id: "t5", text: "fox", metadata: { tenant: "b" } }] };
      expect((await callAs(adminKey, { name: "streamingUpsert", body: other }, "mixed")).status).toBe(200);
      const refused = expectError(await limited({ name: "commitTransaction", params }), 403, "forbidden");
      expect(refused.details).toEqual({ vector_id: "t5" });
      expect(refused.message).toMatch(/still open. Abort it/);
      expect((await limited({ name: "getTransactionStatus", params })).json.status).toHaveProperty(
        "NotStarted",
      );
      expectError(await limited({ name: "createTransaction" }), 409, "transaction_ongoing");
      await callAs(adminKey, { name: "streamingDelete", params: { vector_id: "t5" } }, "mixed");
      expect((await limited({ name: "commitTransaction", params })).status).toBe(204);
      expect((await limited({ name: "vectorExists", params: { vector_id: "t5" } })).status).toBe(200);
      expect((await limited({ name: "listTransactions" })).json.transactions).toHaveLength(1);
      expect(await hiddenRecords()).toBe(before);

      // The way out that the message names: to abort it, which makes room for another one.
      const again = { transaction_id: (await limited({ name: "createTransaction" })).json.transaction_id };
      const body = { id: "t6", text: "fox", metadata: { tenant: "a" } };
      expect((await limited({ name: "addVector", params: again, body })).status).toBe(200);
      const taken = { vectors: [{ id: "t6", text: "fox", metadata: { tenant: "b" } }] };
      expect((await callAs(adminKey, { name: "streamingUpsert", body: taken }, "mixed")).status).toBe(200);
      expectError(await limited({ name: "commitTransaction", params: again }), 403, "forbidden");
      expect((await limited({ name: "abortTransaction", params: again })).status).toBe(204);
      const next = await limited({ name: "createTransaction" });
      expect(next.status).toBe(200);
      expect((await limited({ name: "abortTransaction", params: next.json })).status).toBe(204);
      await callAs(adminKey, { name: "streamingDelete", params: { vector_id: "t6" } }, "mixed");
    },
  );

  testOfWrites("[A22] knows no transactions of others", async () => {
    const { transaction_id } = (await callAs(adminKey, { name: "createTransaction" }, "mixed")).json;
    const params = { transaction_id, vector_id: "v0" };
    const shown = (await limited({ name: "listTransactions" })).text;
    expect(shown).not.toContain(transaction_id);
    const busy = expectError(await limited({ name: "createTransaction" }), 409, "transaction_ongoing");
    expect(busy.message).toContain("There is an on-going transaction!");
    expect(busy.details).toEqual({});
    const calls: Asked[] = [
      { name: "getTransactionStatus", params },
      { name: "commitTransaction", params },
      { name: "abortTransaction", params },
      { name: "addVector", params, body: { id: "x", text: "fox", metadata: { tenant: "a" } } },
      {
        name: "upsertVectors",
        params,
        body: { vectors: [{ id: "x", text: "fox", metadata: { tenant: "a" } }] },
      },
      { name: "deleteVectorInTransaction", params },
    ];
    for (const call of calls) {
      const answer = await limited(call);
      const unknown = await limited({
        ...call,
        params: { ...params, transaction_id: "1-0123456789abcdef01234567" },
      });
      expect(answer.status, call.name).toBe(call.name === "getTransactionStatus" ? 404 : 400);
      expect(answer.text.replaceAll(transaction_id, "T")).toBe(
        unknown.text.replaceAll("1-0123456789abcdef01234567", "T"),
      );
    }
    expect((await callAs(adminKey, { name: "abortTransaction", params }, "mixed")).status).toBe(204);
  });

  test("[A22] hears no number of other records when a collection is full", async () => {
    await server.makeCollection("full", { maxVectors: 3 });
    const body = { vectors: [1, 2, 3].map((i) => ({ id: `h${i}`, text: "fox", metadata: { tenant: "b" } })) };
    await callAs(adminKey, { name: "streamingUpsert", body }, "full");
    const full = await limited(
      { name: "streamingUpsert", body: { vectors: [{ id: "x", text: "fox", metadata: { tenant: "a" } }] } },
      "full",
    );
    expect(expectError(full, 400, "max_vectors_exceeded").details).toEqual({});
  });

  test("[A23] is refused by every endpoint that is not declared as filtered or harmless, and tried on all that are filtered", async () => {
    const before = await server.fingerprint("mixed");
    const all = Object.keys(operations) as OperationName[];
    expect(all.filter((name) => (operations[name] as Operation).keyFilter === undefined)).toEqual(closed);
    for (const name of closed) {
      const params = {
        index_type: "dense",
        field: "n",
        version_hash: "0".repeat(64),
        snapshot_id: "x",
        key_id: "x",
      };
      const answer = await limited({ name, params });
      expect(answer.status, name).toBe(403);
      asked.delete(name);
    }
    for (const path of ["/metrics", "/auth/keys", "/audit"])
      expect((await server.ask(path, { key })).status, path).not.toBe(200);
    expect(await server.fingerprint("mixed")).toEqual(before);
    // What no test above asks for would not be known to be filtered.
    if (shards === 1) expect(filtered.filter((name) => !asked.has(name))).toEqual([]);
  });
});

describe("making one", () => {
  test("[A23] its filter is checked, shown, and never of an admin", async () => {
    const made = await makeKey({ role: "read", filter: { and: [{ tenant: "a" }, { n: { gte: 3 } }] } });
    expect(made.filter).toEqual({ and: [{ tenant: "a" }, { n: { gte: 3 } }] });
    const listed = (await server.call("listKeys")).json.keys as KeyCreated[];
    expect(listed.find(({ key_id }) => key_id === made.key_id)?.filter).toEqual(made.filter);
    const create = (body: object) => server.call("createKey", {}, { name: "x", role: "read", ...body });
    expect(expectError(await create({ filter: { n: { is: 3 } } }), 400, "invalid_filter").details.path).toBe(
      "filter.n.is",
    );
    expectError(await create({ filter: {} }), 400, "invalid_filter");
    expectError(await create({ filter: { tenant: "a" }, role: "admin" }), 400, "invalid_request");
    expectError(await create({ filter: { tenant: "a".repeat(9_000) } }), 400, "invalid_request");
    expect((await create({ filter: null })).json.filter).toBeNull();
  });

  test("[A23] it has its filter after a restart", async () => {
    const one = await startTestServer();
    try {
      await one.makeCollection("c");
      await one.call(
        "streamingUpsert",
        { collection_id: "c" },
        {
          vectors: [
            { id: "a", text: "fox", metadata: { tenant: "a" } },
            { id: "b", text: "fox" },
          ],
        },
      );
      const made = await one.call("createKey", {}, { name: "k", role: "read", filter: tenantFilter });
      await one.close();
      const again = await startTestServer({ dataDir: one.dataDir });
      const count = await again.ask(pathOf("countVectors", { collection_id: "c" }), {
        body: {},
        key: made.json.key,
      });
      expect(count.json).toEqual({ count: 1 });
      await again.call("revokeKey", { key_id: made.json.key_id });
      expect((await again.ask("/vectordb/collections", { key: made.json.key })).status).toBe(401);
      await again.end();
    } finally {
      await one.end().catch(() => undefined);
    }
  });
});
