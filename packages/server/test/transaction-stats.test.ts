// The operation counts of a transaction, in every state and form, and after restarts.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { record, startTestServer, type TestServer } from "./running.ts";

const c = { collection_id: "c" };

test("[T12] stats count all operations sent to a transaction: repeated batches, replaced records, deletes of buffered ones", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "quiver-stats-"));
  let server = await startTestServer({ dataDir });
  const restart = async () => {
    await server.close();
    server = await startTestServer({ dataDir });
  };
  try {
    await server.makeCollection("c");
    await server.call("streamingUpsert", c, { vectors: [record("there")] });
    const t = {
      ...c,
      transaction_id: (await server.call("createTransaction", c)).json.transaction_id as string,
    };
    expect(await statsOf(server, t)).toEqual({ states: ["NotStarted", "not_started"], counts: [0, 0, 0] });

    const batch = { vectors: [record("a"), record("b"), record("a", 2)] };
    for (let i = 0; i < 2; i++) expect((await server.call("upsertVectors", t, batch)).status).toBe(200);
    expect((await server.call("addVector", t, record("c"))).status).toBe(200);
    const drop = (vector_id: string) => server.call("deleteVectorInTransaction", { ...t, vector_id });
    expect((await drop("c")).status).toBe(204);
    expect((await drop("there")).status).toBe(204);
    // Rejected operations do not count.
    expect((await drop("c")).status).toBe(400);
    const wrong = { vectors: [record("d"), { ...record("e"), dense_values: [1] }] };
    expect((await server.call("upsertVectors", t, wrong)).status).toBe(400);
    const counts = [7, 2, 9];
    expect(await statsOf(server, t)).toEqual({ states: ["NotStarted", "not_started"], counts });
    await restart();
    expect(await statsOf(server, t)).toEqual({ states: ["NotStarted", "not_started"], counts });

    // A streaming delete makes one of the transaction's deletes redundant; it still counts.
    expect((await server.call("streamingDelete", { ...c, vector_id: "there" })).status).toBe(204);
    expect((await server.call("commitTransaction", t)).status).toBe(204);
    expect((await statsOf(server, t)).counts).toEqual(counts);
    await server.database.collection("c").indexed();
    expect(await statsOf(server, t)).toEqual({ states: ["Complete", "complete"], counts });
    await restart();
    expect(await statsOf(server, t)).toEqual({ states: ["Complete", "complete"], counts });
    expect((await server.call("getCollection", c)).json.vectors_count).toBe(2);

    const second = (await server.call("createTransaction", c)).json.transaction_id as string;
    const aborted = { ...c, transaction_id: second };
    await server.call("upsertVectors", aborted, batch);
    expect((await server.call("abortTransaction", aborted)).status).toBe(204);
    expect(await statsOf(server, aborted)).toEqual({ states: ["Aborted", "aborted"], counts: [3, 0, 3] });
  } finally {
    await server.close();
    await rm(dataDir, { recursive: true, force: true });
  }
});

/** State and counts in both forms of the status, and in the list, which must agree. */
async function statsOf(server: TestServer, t: { transaction_id: string } & typeof c) {
  const countsOf = (stats: Record<string, number>) => [
    stats.records_upserted,
    stats.records_deleted,
    stats.total_operations,
  ];
  const { status } = (await server.call("getTransactionStatus", t)).json;
  const [[state, { stats }]] = Object.entries(status) as [string, { stats: Record<string, number> }][];
  const flat = (await server.call("getTransactionStatus", t, undefined, "?format=flat")).json;
  const { transactions } = (await server.call("listTransactions", c)).json;
  const listed = transactions.find(
    (each: { transaction_id: string }) => each.transaction_id === t.transaction_id,
  );
  const counts = countsOf(stats);
  expect(countsOf(flat.stats)).toEqual(counts);
  expect(countsOf(listed.status[state].stats)).toEqual(counts);
  return { states: [state, flat.status], counts };
}
