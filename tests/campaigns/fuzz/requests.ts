// Which requests does the fuzzer send to each endpoint?
//
// A request is a route of the list, with parameters, query, headers and body that are valid, nearly valid or hostile. Existing ids, names
// and vectors (the grounds, below) are used often, so that most requests get past the first check.

import { encode } from "@msgpack/msgpack";
import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import fc from "fast-check";
import { anyFilter } from "../../../packages/engine/test/filter/any-filter.ts";
import { adminKey } from "../server-process.ts";
import { hostile, type Shaping, shaped } from "./shaped-json.ts";

/** What a round creates in the server before its requests. */
export type Grounds = { readonly versionHash: string };

/**
 * Placeholders in paths and bodies for ids that are known only from a response: the latest transaction, snapshot and key. The sender
 * replaces them.
 */
export const openTransaction = "open-transaction";
export const lastSnapshot = "last-snapshot";
export const lastKey = "last-key";

export const groundsName = "fuzz ground-2";
export const groundsIds = ["r0", "r1", "r2", "ü/ 3", "%2f"];
const otherNames = ["plain", "victim", "extra-0", "extra-1"];

export type FuzzRequest = {
  readonly method: string;
  /** Path and query as sent. */
  readonly target: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer | undefined;
};

const quoted = (...values: unknown[]) => fc.constantFrom(...values.map((value) => JSON.stringify(value)));
const small = fc.integer({ min: -4, max: 4 });
const bytesOf = (values: readonly number[]) => Buffer.from(new Float32Array(values).buffer);
const vectorText = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(small, small, small).map((values) => JSON.stringify(values)) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(small, small, small)
      .map((values) => JSON.stringify({ f32: bytesOf(values).toString("base64") })),
  },
  {
    weight: 1,
    arbitrary: fc
      .oneof(fc.base64String({ maxLength: 40 }), fc.string({ maxLength: 20 }))
      .map((f32) => JSON.stringify({ f32 })),
  },
);
const words = [
  "bee",
  "bees",
  "dance",
  "honey",
  "wax",
  "navigate",
  "+bee",
  "-wax",
  '"bee dance"',
  "hon*",
  "danse~",
];
const wordsText = fc
  .array(fc.constantFrom(...words), { maxLength: 5 })
  .map((list) => JSON.stringify(list.join(" ")));
const pairs = fc.uniqueArray(fc.tuple(fc.nat(6), small), { selector: ([index]) => index, maxLength: 4 });

/** Ids and vectors. */
const examples = fc
  .array(fc.oneof(quoted(...groundsIds, "absent"), vectorText), { minLength: 1, maxLength: 4 })
  .map((list) => `[${list.join(",")}]`);

const hints: Shaping["hints"] = {
  id: quoted(...groundsIds, "new-1", "new-2", "new-3"),
  document_id: quoted("d1", "d2", null),
  dense_values: vectorText,
  query_vector: vectorText,
  vector: vectorText,
  dimension: quoted(3, 3, 3, 1, 7),
  positive: examples,
  negative: examples,
  diversity: quoted(null, 0, 0.3, 1),
  sparse_indices: quoted(null, [0, 1], [5]),
  sparse_values: fc.oneof(
    pairs.map((list) => JSON.stringify(list)),
    quoted([1, 2], [3]),
  ),
  query_terms: pairs.map((list) => JSON.stringify(list)),
  text: wordsText,
  query: wordsText,
  query_text: wordsText,
  // In any of its forms, or any JSON.
  filter: fc.oneof(
    { weight: 6, arbitrary: anyFilter.map((filter) => JSON.stringify(filter)) },
    { weight: 2, arbitrary: fc.json({ maxDepth: 4 }) },
    { weight: 2, arbitrary: quoted(null, { id: { in: groundsIds } }, { n: { gte: 1 } }, { n: { is: 1 } }) },
  ),
  field: quoted("n", "a.b", "a\\.b", "id", "document_id", "", "a\\"),
  group_by: quoted(null, "document_id", "n", "a.b"),
  include: quoted(null, [], ["metadata"], ["text", "dense_values", "sparse_values", "metadata"], ["id"]),
  ids: quoted(groundsIds, [], ["absent"], [""]),
  cursor: quoted(null, "0000000000000000.WyJyMSJd", "0000000000000000.WyJyMSIsMV0", "WyJyMSJd", "x"),
  score_threshold: quoted(null, 0, -1e300),
  offset: quoted(null, 0, 3, 10_000),
  name: quoted(...otherNames, "extra-2", "extra 3"),
  snapshots: quoted([lastSnapshot], [lastSnapshot], [], ["absent"]),
  since_version: quoted(null, null, 0, 1, 2),
  since_hash: quoted(null),
  overwrite: quoted(true, true, false),
  // Keys without access to anything that soon expire.
  collections: quoted(["nothing-*"]),
  enabled: quoted(true, true, true, false),
  username: quoted("admin", "admin", "root"),
  // Never the real key: creating a session with every tenth request would be too much load.
  password: quoted("wrong", "wrong-too"),
};

const hostileSegments = [
  "",
  ".",
  "..",
  "%2e%2e",
  "..%2f..%2fetc%2fpasswd",
  "%00",
  "a%00b",
  "%",
  "%zz",
  "%ff",
  "%ed%a0%80",
  "%c0%ae",
  "loaded",
  "null",
  "undefined",
  "__proto__",
  "constructor",
  "hasOwnProperty",
  "-1",
  "0",
  "1e9",
  "*",
  ":collection_id",
  "{collection_id}",
  ";",
  "a;b=c",
  "a?b",
  "%3F",
  "%23",
  "a%2Fb",
  "%F0%9F%98%80",
  "x".repeat(300),
  "x".repeat(4_000),
  "%41".repeat(800),
  "0".repeat(64),
  "f".repeat(64),
  "1-000000000000000000000000",
  "99999999999999999999-0",
];

function segmentsFor(parameter: string, grounds: Grounds): fc.Arbitrary<string> {
  const known: Record<string, readonly string[]> = {
    collection_id: [...Array(8).fill(groundsName), "plain", "extra-0", "absent"],
    vector_id: [...groundsIds, "new-1", "absent"],
    transaction_id: [openTransaction, openTransaction, openTransaction, "1-000000000000000000000000"],
    snapshot_id: [lastSnapshot, lastSnapshot, lastSnapshot, "absent"],
    key_id: [lastKey, lastKey, "absent"],
    version_hash: [grounds.versionHash, "current"],
    version: ["0", "1", "2", grounds.versionHash, "kept"],
    other: ["0", "1", "2", grounds.versionHash, "kept"],
    tag: ["kept", "kept", "absent"],
    alias: ["other-name", "other-name", "plain", "absent"],
    field: ["n", "a.b", "id", "\\id", "a\\", "missing"],
    index_type: ["dense", "sparse", "tf_idf", "tf-idf"],
  };
  const sensible = known[parameter];
  if (sensible === undefined) throw new Error(`the fuzzer knows no values for {${parameter}}`);
  return fc.oneof(
    { weight: 20, arbitrary: fc.constantFrom(...sensible).map(encodeURIComponent) },
    { weight: 2, arbitrary: fc.constantFrom(...hostileSegments) },
    { weight: 1, arbitrary: fc.string({ unit: "grapheme", maxLength: 12 }).map(encodeSafely) },
  );
}

const encodeSafely = (text: string) => encodeURIComponent(text.toWellFormed());

const queryValues = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 20 }).map(String) },
  { weight: 2, arbitrary: fc.constantFrom("d1", "d2", "flat", "") },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      "-1",
      "1e3",
      "1.5",
      "%20",
      "+",
      "%",
      "%ff",
      "99999999999999999999",
      "null",
      "[1]",
      "x".repeat(2_000),
      "%00",
    ),
  },
);

function queries(route: Operation): fc.Arbitrary<string> {
  const names = Object.keys(route.query ?? {});
  const pair = fc
    .tuple(fc.constantFrom(...names, ...names, ...names, "unknown", "__proto__", "%66ormat"), queryValues)
    .map(([name, value]) => `${name}=${value}`);
  const none = fc.constant("");
  const some = fc.array(pair, { minLength: 1, maxLength: 3 }).map((list) => `?${list.join("&")}`);
  const odd = fc.constantFrom("?", "?&&=&", "?a", "?%", "?=1", `?${"a=1&".repeat(500)}`, "?a=b#c");
  return names.length > 0
    ? fc.oneof({ weight: 2, arbitrary: none }, { weight: 8, arbitrary: some }, { weight: 1, arbitrary: odd })
    : fc.oneof(
        { weight: 20, arbitrary: none },
        { weight: 1, arbitrary: some },
        { weight: 1, arbitrary: odd },
      );
}

type Header = readonly [name: string, value: string];
const key: Header = ["Authorization", `Bearer ${adminKey}`];
const json: Header = ["Content-Type", "application/json"];

/** Bytes that a header may have, and some that it may not. */
const headerText = fc.oneof(
  { weight: 10, arbitrary: fc.string({ unit: "grapheme-ascii", maxLength: 30 }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom("\u0001", "\u00ff\u00fe", "a\tb", " ", "x".repeat(8_000), "\u007f"),
  },
);

const extraHeaders: fc.Arbitrary<readonly Header[]> = fc.oneof(
  { weight: 12, arbitrary: fc.constant([] as Header[]) },
  {
    weight: 3,
    arbitrary: fc
      .constantFrom<Header>(
        ["Expect", "100-continue"],
        ["Expect", "the unexpected"],
        ["Accept", "text/html;q=0.1, */*"],
        ["Accept-Encoding", "gzip, br, zstd"],
        ["Range", "bytes=0-1"],
        ["If-None-Match", "*"],
        ["X-HTTP-Method-Override", "DELETE"],
        ["X-Forwarded-For", "127.0.0.1, ::1"],
        ["X-Request-Id", "sane-1"],
        ["X-Request-Id", "in sane\u00ff"],
        ["Origin", "null"],
        ["Host", "evil.example"],
        ["Host", "a b"],
        ["Connection", "close"],
        ["Connection", "upgrade"],
        ["Upgrade", "websocket"],
        ["Upgrade", "h2c"],
        ["TE", "trailers"],
        ["Cookie", `a=${"b".repeat(4_000)}`],
        ["Content-Encoding", "gzip"],
        ["__proto__", "1"],
      )
      .map((header) => [header]),
  },
  {
    weight: 1,
    arbitrary: fc.array(
      fc.tuple(
        fc.oneof(
          fc.constantFrom("X-A", "Accept", "Cookie", "Via"),
          fc.string({ unit: "grapheme-ascii", minLength: 1, maxLength: 12 }),
        ),
        headerText,
      ),
      { minLength: 1, maxLength: 4 },
    ),
  },
  {
    weight: 1,
    arbitrary: fc
      .nat(120)
      .map((count) => Array.from({ length: count }, (_, i): Header => [`X-Many-${i}`, "y".repeat(100)])),
  },
);

const authorizations: fc.Arbitrary<readonly Header[]> = fc.oneof(
  { weight: 60, arbitrary: fc.constant([key]) },
  {
    weight: 1,
    arbitrary: fc
      .oneof(
        fc.constantFrom(
          "",
          "Bearer",
          "Bearer ",
          `bearer  ${adminKey}x`,
          `Basic ${adminKey}`,
          `Bearer ${"x".repeat(2_000)}`,
          `Bearer ${adminKey} ${adminKey}`,
        ),
        headerText,
      )
      .map((value) => [["Authorization", value] as const]),
  },
  { weight: 1, arbitrary: fc.constant([]) },
  { weight: 1, arbitrary: fc.constant([key, key]) },
);

const contentTypes: fc.Arbitrary<readonly Header[]> = fc.oneof(
  { weight: 40, arbitrary: fc.constant([json]) },
  {
    weight: 2,
    arbitrary: fc
      .constantFrom(
        "application/json; charset=utf-8",
        "application/json; charset=utf-16",
        "text/plain",
        "multipart/form-data; boundary=x",
        "application/x-ndjson",
        "application/msgpack",
        "nonsense",
        "",
        "application/json;;;",
        `application/json; a="${"b".repeat(500)}"`,
      )
      .map((type) => [["Content-Type", type] as const]),
  },
  { weight: 1, arbitrary: fc.constant([]) },
);

/** Damaged bytes: truncated, changed, not UTF-8. */
const damage: fc.Arbitrary<(body: Buffer) => Buffer> = fc.oneof(
  { weight: 25, arbitrary: fc.constant((body: Buffer) => body) },
  {
    weight: 1,
    arbitrary: fc
      .double({ min: 0, max: 1, noNaN: true })
      .map((share) => (body: Buffer) => body.subarray(0, Math.floor(share * body.length))),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.nat(), fc.nat(255)).map(([at, byte]) => (body: Buffer) => {
      const changed = Buffer.from(body);
      if (changed.length > 0) changed[at % changed.length] = byte;
      return changed;
    }),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom(
        Buffer.from([0xff, 0xfe]),
        Buffer.from("\ufeff"),
        Buffer.from("}{"),
        Buffer.from("\u0000"),
      )
      .map((more) => (body: Buffer) => Buffer.concat([more, body])),
  },
);

function bodies(route: Operation): fc.Arbitrary<Buffer | undefined> {
  const none = fc.constant(undefined);
  if (route.body === undefined) {
    return fc.oneof(
      { weight: 12, arbitrary: none },
      { weight: 1, arbitrary: hostile.map((text) => Buffer.from(text)) },
    );
  }
  const texts = fc.oneof(
    { weight: 5, arbitrary: shaped(route.body, { flawPermille: 0, hints }) },
    { weight: 4, arbitrary: shaped(route.body, { flawPermille: 15, hints }) },
    { weight: 3, arbitrary: shaped(route.body, { flawPermille: 120, hints }) },
    { weight: 1, arbitrary: hostile },
  );
  return fc.oneof(
    { weight: 40, arbitrary: fc.tuple(texts, damage).map(([text, spoil]) => spoil(Buffer.from(text))) },
    { weight: 1, arbitrary: none },
  );
}

/** The formats of many records besides JSON: a body, and its media type. */
function bulkBodies(route: Operation): fc.Arbitrary<{ type: string; body: Buffer }> {
  const shape = (route.body as { properties?: { vectors?: { items?: unknown } } }).properties?.vectors?.items;
  const records = (flawPermille: number) =>
    fc.array(shaped(shape, { flawPermille, hints }), { maxLength: 5 });
  const lines = fc
    .tuple(fc.oneof(records(0), records(30)), fc.constantFrom("\n", "\n", "\r\n", "\n\n", " "))
    .map(([texts, between]) => Buffer.from(texts.join(between)));
  const packed = fc
    .tuple(records(0), fc.array(small, { minLength: 3, maxLength: 3 }), fc.nat(3))
    .map(([texts, values, how]) => {
      const parsed = texts.map((text) => JSON.parse(text));
      if (how > 0)
        for (const record of parsed) if (record.dense_values) record.dense_values = bytesOf(values);
      return how === 3 ? Buffer.from(encode(parsed)) : Buffer.concat(parsed.map((record) => encode(record)));
    });
  return fc.oneof(
    fc.tuple(lines, damage).map(([body, spoil]) => ({ type: "application/x-ndjson", body: spoil(body) })),
    fc.tuple(packed, damage).map(([body, spoil]) => ({ type: "application/msgpack", body: spoil(body) })),
  );
}

const otherMethods = ["GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "PROPFIND"];

/** Requests to one endpoint. */
function requestsTo(name: OperationName, grounds: Grounds): fc.Arbitrary<FuzzRequest> {
  const route: Operation = operations[name];
  const parts = route.path.split(/(\{\w+\})/).map((part): fc.Arbitrary<string> => {
    const parameter = /^\{(\w+)\}$/.exec(part)?.[1];
    if (parameter === undefined) return fc.constant(part);
    // If the grounds were deleted, all later requests of the round would fail at their first check.
    return name === "deleteCollection" && parameter === "collection_id"
      ? fc.oneof(
          { weight: 10, arbitrary: fc.constantFrom(...otherNames, "absent") },
          { weight: 1, arbitrary: fc.constantFrom(...hostileSegments) },
        )
      : segmentsFor(parameter, grounds);
  });
  return fc
    .record({
      method: fc.oneof(
        { weight: 40, arbitrary: fc.constant<string>(route.method) },
        { weight: 1, arbitrary: fc.constantFrom(...otherMethods) },
      ),
      path: fc.tuple(...parts).map((list) => list.join("")),
      query: queries(route),
      authorization: authorizations,
      contentType: contentTypes,
      extra: extraHeaders,
      body: bodies(route),
      bulk:
        route.records === "vectors"
          ? fc.option(bulkBodies(route), { nil: undefined })
          : fc.constant(undefined),
    })
    .map(({ method, path, query, authorization, contentType, extra, body, bulk }) => ({
      method,
      target: path + query,
      headers: [
        ...authorization,
        ...(bulk === undefined ? contentType : [["Content-Type", bulk.type] as const]),
        ...extra.filter(([headerName]) => !/^(content-length|transfer-encoding)$/i.test(headerName)),
      ],
      body: bulk?.body ?? body,
    }));
}

/** Requests to all endpoints, each equally often. */
export function anyRequest(grounds: Grounds): fc.Arbitrary<FuzzRequest> {
  return fc.oneof(...(Object.keys(operations) as OperationName[]).map((name) => requestsTo(name, grounds)));
}

/** A request as bytes. Header values are written as Latin-1, the bytes beyond ASCII included. */
export function encodeRequest({ method, target, headers, body }: FuzzRequest): Buffer {
  const hasHost = headers.some(([name]) => name.toLowerCase() === "host");
  const lines = [
    `${method} ${target} HTTP/1.1`,
    ...(hasHost ? [] : ["Host: 127.0.0.1"]),
    ...headers.map(([name, value]) => `${name}: ${value}`),
    ...(body === undefined ? [] : [`Content-Length: ${body.length}`]),
    "",
    "",
  ];
  return Buffer.concat([Buffer.from(lines.join("\r\n"), "latin1"), body ?? Buffer.alloc(0)]);
}
