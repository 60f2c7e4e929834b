// What can the published Python client do with the server? Its recorded requests, and docs/guide/python.md, which must say the same.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { recorded } from "./python-client.ts";
import { adminKey, expectError, startTestServer, type TestServer } from "./running.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.end());

/** The values at a path of fields; `[]` stands for each item of a list, of which there must be one. */
function valuesAt(value: unknown, path: string): unknown[] {
  let values = [value];
  for (const step of path.split(".")) {
    values = values.flatMap((each) => {
      if (step === "[]") {
        expect(Array.isArray(each) && each.length > 0, `${path}: ${JSON.stringify(each)}`).toBe(true);
        return each as unknown[];
      }
      expect(each, path).toHaveProperty([step]);
      return [(each as Record<string, unknown>)[step]];
    });
  }
  return values;
}

const known: Record<string, string> = {};
const filled = (text: string) => text.replaceAll(/\{(t|hash)\}/g, (_, name: string) => known[name]);

test("[E8] each method of the client gets what it reads, or the refusal that the page names", async () => {
  let token: string | null = null;
  for (const { call, request, accepts, reads = [], refused } of recorded(adminKey)) {
    const [method, path, body] = request;
    const answer = await server.ask(filled(path), {
      method,
      key: token,
      headers: { "content-type": "application/json" },
      // A request without a body has the length 0.
      raw: body === undefined ? (method === "POST" ? "" : undefined) : filled(JSON.stringify(body)),
    });
    if (refused !== undefined) {
      expectError(answer, ...refused);
      continue;
    }
    expect(accepts, `${call}: ${answer.status} ${answer.text}`).toContain(answer.status);
    for (const field of reads)
      for (const value of valuesAt(answer.json, field)) expect(value, `${call}: ${field}`).toBeDefined();
    token = answer.json?.access_token ?? token;
    known.t = answer.json?.transaction_id ?? known.t;
    known.hash = answer.json?.current_hash ?? known.hash;
  }
});

test("the status of a transaction is an object, with which poll_completion compares a word", async () => {
  await server.makeCollection("polled");
  const polled = { collection_id: "polled" };
  const { transaction_id } = (await server.call("createTransaction", polled)).json;
  await server.call("commitTransaction", { ...polled, transaction_id });
  const { status } = (await server.call("getTransactionStatus", { ...polled, transaction_id })).json;
  expect(Object.keys(status)).toEqual(["Complete"]);
});

test("an id with reserved characters is found where the program has quoted it", async () => {
  await server.makeCollection("quoted");
  const sent = { vectors: [{ id: "a/b", dense_values: [1, 2, 3, 4] }] };
  expect((await server.call("streamingUpsert", { collection_id: "quoted" }, sent)).status).toBe(200);
  const path = "/vectordb/collections/quoted/vectors";
  expectError(await server.ask(`${path}/a/b`), 404, "route_not_found");
  expect((await server.ask(`${path}/a%2Fb`)).json.id).toBe("a/b");
});

test("docs/guide/python.md says of every method whether it works", () => {
  const page = readFileSync(join(import.meta.dirname, "../../../docs/guide/python.md"), "utf8");
  const rows = [...page.matchAll(/^\| `([^`]+)` \| (works|does not work)\b.* \|$/gm)];
  const said = rows.map(([, call, verdict]) => [call, verdict]).sort();
  const seen = recorded(adminKey).map(({ call, refused }) => [
    call,
    refused === undefined ? "works" : "does not work",
  ]);
  // Its requests are those of txn.get_status().
  seen.push(["txn.poll_completion()", "does not work"]);
  expect(said).toEqual(seen.sort());
});
