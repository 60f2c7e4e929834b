// Which malformed HTTP does the fuzzer send?
//
// Each attack has its own connection. Whatever it sends, the server responds with an error in the usual shape or not at all, and closes the
// connection in time. Requests that are smuggled in a body or behind an ambiguous length are never executed.

import fc from "fast-check";
import { adminKey } from "../server-process.ts";

export type Attack = {
  readonly kind: string;
  readonly parts: readonly string[];
  /** Between two parts. */
  readonly pauseMs: number;
  /** Whether the client closes its side after the last part; otherwise it waits for the server. */
  readonly finishes: boolean;
};

/** The collection that smuggled requests try to delete. */
export const canaryName = "canary";

const head = (method: string, path: string, ...more: string[]) =>
  [
    `${method} ${path} HTTP/1.1`,
    "Host: 127.0.0.1",
    `Authorization: Bearer ${adminKey}`,
    "Content-Type: application/json",
    ...more,
    "",
    "",
  ].join("\r\n");

const searchPath = `/vectordb/collections/${canaryName}/search/dense`;
const searchBody = '{"query_vector":[1,0,0],"top_k":3}';
const smuggled = head("DELETE", `/vectordb/collections/${canaryName}`);
const list = head("GET", "/vectordb/collections");
const search = `${head("POST", searchPath, `Content-Length: ${searchBody.length}`)}${searchBody}`;

type Raw = { readonly parts: readonly string[]; readonly pauseMs?: number; readonly finishes?: boolean };

const once = (text: string): Raw => ({ parts: [text] });
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
const chunkedHead = (...more: string[]) => head("POST", searchPath, "Transfer-Encoding: chunked", ...more);

/** Bytes as Latin-1 characters. */
const bytes = (maxLength: number) =>
  fc.uint8Array({ minLength: 1, maxLength }).map((values) => Buffer.from(values).toString("latin1"));

const kinds: Readonly<Record<string, fc.Arbitrary<Raw>>> = {
  "cut off": fc
    .tuple(
      fc.constantFrom(search, list, search + list),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.boolean(),
    )
    .map(([text, share, finishes]) => ({
      parts: [text.slice(0, Math.floor(share * text.length))],
      finishes,
    })),

  pipelined: fc
    .array(
      fc.constantFrom(
        search,
        list,
        head("GET", "/nowhere"),
        head("HEAD", "/health/live"),
        search.replace("[1,", "[x,"),
      ),
      {
        minLength: 2,
        maxLength: 30,
      },
    )
    .map((requests) => once(requests.join(""))),

  "in pieces": fc
    .tuple(fc.constantFrom(search, list), fc.integer({ min: 1, max: 60 }), fc.integer({ min: 0, max: 3 }))
    .map(([text, size, pauseMs]) => ({
      parts: text.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [],
      pauseMs,
    })),

  slowloris: fc
    .constantFrom(list.slice(0, -2), search.slice(0, -20), `${chunkedHead()}5\r\nab`)
    .map((text) => ({
      parts: [text, ..."X-Slow: 1\r\nX-Slower: 2\r\n".repeat(3)],
      pauseMs: 150,
      finishes: false,
    })),

  "wrong length": fc
    .constantFrom(
      "-1",
      "+5",
      "0x10",
      "1e2",
      "5, 5",
      "5 5",
      "abc",
      "",
      " ",
      "1",
      "3",
      "1000",
      "99999999999",
      "18446744073709551616",
      "999999999999999999999999999999",
    )
    .map((length) => once(head("POST", searchPath, `Content-Length: ${length}`) + searchBody)),

  "invalid chunks": fc
    .oneof(
      fc.constantFrom(
        "zz\r\nab\r\n0\r\n\r\n",
        "-1\r\nab\r\n0\r\n\r\n",
        "ffffffffffffffff\r\nab",
        "fffffffffffffffff1\r\nab",
        "5\r\nab\r\n0\r\n\r\n",
        "2\r\nabXX0\r\n\r\n",
        "\r\n\r\n",
        "0x2\r\nab\r\n0\r\n\r\n",
        `2;${"e".repeat(20_000)}\r\nab\r\n0\r\n\r\n`,
        `${chunk(searchBody)}0\r\nX-Trailer: ${"t".repeat(20_000)}\r\n\r\n`,
        `${chunk(searchBody)}0\r\nContent-Length: 5\r\n\r\n`,
        `${chunk(searchBody)}0\r\n`,
        "2\nab\n0\n\n",
      ),
      bytes(200),
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 40 }).map((sizes) => {
        const ends = sizes.map((_, i) => sizes.slice(0, i + 1).reduce((sum, size) => sum + size, 0));
        const pieces = ends.map((end, i) => chunk(searchBody.slice(end - sizes[i], end) || " "));
        return `${pieces.join("")}0\r\n\r\n`;
      }),
    )
    .map((body) => once(chunkedHead() + body)),

  "huge headers": fc
    .constantFrom(
      head("GET", `/vectordb/collections?${"a".repeat(17_000)}`),
      head("GET", "/vectordb/collections", `X-Huge: ${"h".repeat(20_000)}`),
      head("GET", "/vectordb/collections", `X-Huge: ${"h".repeat(1_000_000)}`),
      head("GET", "/vectordb/collections", ...Array.from({ length: 3_000 }, (_, i) => `X-${i}: 1`)),
      head("GET", "/vectordb/collections", `${"N".repeat(20_000)}: 1`),
      `${"M".repeat(20_000)} / HTTP/1.1\r\n\r\n`,
      head("GET", `/${"a/".repeat(7_000)}`),
    )
    .map(once),

  smuggling: fc
    .constantFrom(
      `${head("POST", searchPath, "Content-Length: 5", "Transfer-Encoding: chunked")}0\r\n\r\n${smuggled}`,
      head("POST", searchPath, "Transfer-Encoding: chunked", `Content-Length: ${searchBody.length}`) +
        `0\r\n\r\n${smuggled}`,
      head("POST", searchPath, "Transfer-Encoding: xchunked", `Content-Length: ${smuggled.length}`) +
        smuggled,
      head("POST", searchPath, "Transfer-Encoding: chunked, identity") + smuggled,
      head("POST", searchPath, "Transfer-Encoding: identity", `Content-Length: ${smuggled.length}`) +
        smuggled,
      head("POST", searchPath, "Transfer-Encoding : chunked", `Content-Length: ${smuggled.length}`) +
        smuggled,
      head("POST", searchPath, "Transfer-Encoding:\u000bchunked", `Content-Length: ${smuggled.length}`) +
        smuggled,
      head("POST", searchPath, "Transfer-Encoding: chunked", "Transfer-Encoding: cow") + smuggled,
      head("POST", searchPath, `Content-Length: ${smuggled.length}`, "Content-Length: 0") + smuggled,
      head("POST", searchPath, `Content-Length: ${smuggled.length}`) + smuggled,
      head("GET", "/vectordb/collections", `Content-Length: ${smuggled.length}`) + smuggled,
      head("GET", "/vectordb/collections", "X-A: 1\r\n folded", `Content-Length: ${smuggled.length}`) +
        smuggled,
      head("GET", "/vectordb/collections", `X-A: 1\u0000`, `Content-Length: ${smuggled.length}`) + smuggled,
      head("GET", `/vectordb/collections HTTP/1.1\r\nX-A: b`, `Content-Length: ${smuggled.length}`) +
        smuggled,
      `${chunkedHead()}${chunk(smuggled)}0\r\n\r\n`,
      `${chunkedHead()}${chunk(searchBody)}0\r\nX: ${smuggled.replaceAll("\r\n", " ")}\r\n\r\n`,
    )
    .map(once),

  "not HTTP": fc
    .oneof(
      bytes(400),
      fc.constantFrom(
        "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET /vectordb/collections\r\n\r\n",
        list.replace("HTTP/1.1", "HTTP/9.9"),
        list.replace("HTTP/1.1", "HTTP/1.0"),
        list.replaceAll("\r\n", "\n"),
        list.replaceAll("\r\n", "\r"),
        `\r\n\r\n\r\n${list}`,
        list.replace("GET /", "GET http://evil.example/"),
        list.replace("GET /vectordb/collections", "OPTIONS *"),
        list.replace("GET /vectordb/collections", "CONNECT 127.0.0.1:22"),
        list.replace("GET ", "GET\t"),
        list.replace("GET", "gEt"),
        list.replace("/vectordb", "vectordb"),
        list.replace("/vectordb", "/vector\u00e9db\u0000"),
        list.replace("Host: 127.0.0.1\r\n", ""),
        list.replace("Host:", "Host: a\r\nHost:"),
        " ",
        "\r\n",
        "\u0000",
        "EHLO example.org\r\n",
        "\u0005\u0001\u0000",
      ),
    )
    .map(once),
};

/** All attacks, each kind equally often. Slow ones are rarer, because they occupy a connection for seconds. */
export const anyAttack: fc.Arbitrary<Attack> = fc.oneof(
  ...Object.entries(kinds).map(([kind, raw]) => ({
    weight: kind === "slowloris" ? 1 : 3,
    arbitrary: raw.map(({ parts, pauseMs = 0, finishes = true }) => ({ kind, parts, pauseMs, finishes })),
  })),
);
