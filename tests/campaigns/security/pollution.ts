// Are keys with names that are special in JavaScript treated as ordinary keys?
//
// Such keys are put into every object of every body, as names in paths and query strings, and as names of collections, records and
// metadata. No prototype may change, no response may be 500, and stored data must be returned unchanged.

import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import { bodies, collectionBody, type ProbedServer } from "./probed-server.ts";

const names = [
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "hasOwnProperty",
  "__defineGetter__",
  "then",
  "toJSON",
];
const values = [
  '{"polluted":true}',
  '{"prototype":{"polluted":true}}',
  '["polluted"]',
  '"polluted"',
  "null",
  "1",
];

/** Properties that every object would have if a prototype were polluted. */
const ownKeys = (object: object) => Reflect.ownKeys(object).map(String).sort().join();
const prototypes = [Object.prototype, Array.prototype, Function.prototype, String.prototype];
const before = prototypes.map(ownKeys);

function assertClean(what: string): void {
  const after = prototypes.map(ownKeys);
  const isClean = after.every((keys, index) => keys === before[index]);
  if (!isClean || ({} as { polluted?: unknown }).polluted !== undefined) {
    throw new Error(`${what} has changed a prototype`);
  }
}

/** JSON texts of a value with a member added to one of its objects, one text for each object in it. */
function* withMember(value: unknown, member: string): Generator<string> {
  const text = JSON.stringify(value);
  for (let at = text.indexOf("{"); at >= 0; at = text.indexOf("{", at + 1)) {
    const comma = text[at + 1] === "}" ? "" : ",";
    yield `${text.slice(0, at + 1)}${member}${comma}${text.slice(at + 1)}`;
  }
}

/** @returns the number of tested bodies @throws Error at the first violation */
export async function probePollution(probed: ProbedServer): Promise<number> {
  let tried = 0;
  const check = (what: string, status: number) => {
    tried++;
    if (status >= 500) throw new Error(`${what} was answered with ${status}`);
    assertClean(what);
  };
  for (const [route, body] of Object.entries(bodies) as [OperationName, unknown][]) {
    for (const name of names) {
      for (const value of values) {
        for (const text of withMember(body, `${JSON.stringify(name)}:${value}`)) {
          const answer = await probed.call(route, { collection_id: "c" }, text);
          check(`${route} with ${text}`, answer.status);
        }
      }
    }
  }
  for (const [route, { path, query }] of Object.entries(operations) as [OperationName, Operation][]) {
    for (const name of names) {
      const params = Object.fromEntries([...path.matchAll(/\{(\w+)\}/g)].map(([, each]) => [each, name]));
      if (bodies[route] === undefined)
        check(`${route} of ${name}`, (await probed.call(route, params)).status);
      const string = `?${name}=1&${name}[polluted]=1&${Object.keys(query ?? {}).join("&")}`;
      const { method } = operations[route];
      const filled = path.replaceAll(/\{\w+\}/g, "c");
      if (method === "GET") check(`${filled}${string}`, (await probed.ask(`${filled}${string}`)).status);
    }
  }
  for (const name of names) await roundTrip(probed, name);
  return tried;
}

/** A collection, a record and its metadata, all with that name, are stored and returned unchanged. */
async function roundTrip(probed: ProbedServer, name: string): Promise<void> {
  const expectStatus = (
    what: string,
    { status, text }: { status: number; text: string },
    expected: number,
  ) => {
    if (status !== expected) throw new Error(`${what} ${name}: ${status} ${text}`);
  };
  const made = await probed.call("createCollection", {}, collectionBody(name));
  if (made.status !== 409) expectStatus("creating", made, 201);
  const params = { collection_id: name, vector_id: name };
  const metadata = `{${names.map((each) => `${JSON.stringify(each)}:{"polluted":true}`).join()}}`;
  const body = `{"vectors":[{"id":${JSON.stringify(name)},"text":"w","metadata":${metadata}}]}`;
  expectStatus("writing", await probed.call("streamingUpsert", params, body), 200);
  const read = await probed.call("getVector", params);
  expectStatus("reading", read, 200);
  if (!read.text.includes(`"metadata":${metadata}`)) throw new Error(`the metadata of ${name} has changed`);
  expectStatus("deleting", await probed.call("deleteCollection", params), 204);
  assertClean(`a collection called ${name}`);
}
