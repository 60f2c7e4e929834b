// Does any text keep the server busy for longer than a harmless text of its length does?
//
// Backtracking in a pattern, or any other quadratic work, takes a multiple of the time for ordinary words. The fastest of several runs is
// compared. Times below `noiseMs` count as `noiseMs`. A text that seems slow is sent up to `runsInDoubt` more times: on a busy machine one
// of them runs undisturbed, while a text that is really slow is slow every time.

import { QuiverError } from "@quiverdb/protocol/errors";
import type { Ask, ProbedServer } from "./probed-server.ts";

/** A hostile text may take this many times as long as a harmless one. Quadratic work would take thousands of times as long. */
const ratioMax = 25;
const noiseMs = 3;
const runsInDoubt = 20;

type Field = {
  readonly name: string;
  readonly path: (text: string) => string;
  readonly ask?: (text: string) => Ask;
  /** True for headers and paths: at most 12,000 bytes of visible ASCII. */
  readonly isHead?: boolean;
};

const c = "/vectordb/collections/c";
const encoded = encodeURIComponent;
const head = (
  name: string,
  path: (text: string) => string,
  headers?: (text: string) => Record<string, string>,
) => ({
  name,
  path,
  isHead: true,
  ...(headers && { ask: (text: string) => ({ headers: headers(text) }) }),
});
const body = (name: string, path: string, make: (text: string) => unknown) => ({
  name,
  path: () => path,
  ask: (text: string) => ({ body: make(text) }),
});
const list = () => "/vectordb/collections";

const fields: readonly Field[] = [
  head("authorization", list, (text) => ({ authorization: `Bearer ${text}` })),
  head("authorization without a scheme", list, (text) => ({ authorization: text })),
  head("an API key", list, (text) => ({ authorization: `Bearer qk_${text}` })),
  head("x-request-id", list, (text) => ({ "x-request-id": text })),
  head("origin", list, (text) => ({ origin: text })),
  head("content-type", list, (text) => ({ "content-type": text })),
  head("collection in the path", (text) => `/vectordb/collections/${encoded(text)}`),
  head("an unknown path", (text) => `/${text.replaceAll(/[?#%\\]/g, "/")}`),
  head("a query string", (text) => `${c}/vectors?${text.replaceAll("#", "?")}`),
  head("document_id", (text) => `${c}/vectors?document_id=${encoded(text)}`),
  head("limit", (text) => `${c}/versions?limit=${encoded(text)}`),
  head("version hash", (text) => `${c}/versions/${encoded(text)}`),
  head("transaction", (text) => `${c}/transactions/${encoded(text)}/status`),
  head("key id", (text) => `/auth/keys/${encoded(text)}`),
  body("a body that is no JSON", `${c}/search/tf-idf`, (text) => text),
  body("collection name", "/vectordb/collections", (name) => ({ name, config: {} })),
  body("description", "/vectordb/collections", (description) => ({ name: "c", description })),
  body("record id", `${c}/streaming/upsert`, (id) => ({ vectors: [{ id, text: "w" }] })),
  body("record text", `${c}/streaming/upsert`, (text) => ({ vectors: [{ id: "t", text }] })),
  body("metadata", `${c}/streaming/upsert`, (text) => ({
    vectors: [{ id: "t", text: "w", metadata: { n: 1, text } }],
  })),
  body("query", `${c}/search/tf-idf`, (query) => ({ query })),
  body("query with operators", `${c}/search/tf-idf`, (query) => ({ query, syntax: "operators" })),
  body("text to analyze", `${c}/indexes/tf-idf/analyze`, (text) => ({ text })),
  body("stop word", `${c}/indexes/tf-idf`, (word) => ({
    name: "t",
    sample_threshold: 1,
    k1: 1,
    b: 1,
    stop_words: [word],
  })),
  body("password", "/auth/create-session", (password) => ({ username: "admin", password })),
  body("key name", "/auth/keys", (name) => ({ name, role: "read" })),
  body("a key's collections", "/auth/keys", (text) => ({ name: "k", role: "read", collections: [text] })),
];

const repeated = (part: string) => (length: number) =>
  part.repeat(Math.ceil(length / part.length)).slice(0, length);
const harmless = repeated("plain words of a text ");

/** Texts that are known to cause backtracking. */
const headPatterns: Readonly<Record<string, (length: number) => string>> = {
  "one letter, and what ends no match": (length) => `${repeated("a")(length - 1)}!`,
  spaces: (length) => `a${repeated(" ")(length - 2)}!`,
  "letters and spaces": (length) => `${repeated("a ")(length - 1)}!`,
  digits: (length) => `${repeated("1")(length - 1)}x`,
  "colons and digits": repeated(":1"),
  slashes: repeated("/"),
  "dots and slashes": repeated("../"),
  "stars and tildes": repeated("*~"),
  quotes: repeated('"'),
  ampersands: repeated("&="),
  underscores: (length) => `${repeated("_")(length - 1)}!`,
};
const bodyPatterns: Readonly<Record<string, (length: number) => string>> = {
  ...headPatterns,
  brackets: repeated("[{("),
  backslashes: repeated("\\"),
  "excluded and required": repeated("-+"),
  "unclosed phrases": repeated('"a '),
  "fuzzy prefixes": repeated("a*~2 "),
  apostrophes: repeated("a'"),
  points: repeated("1.,"),
  "combining marks": repeated("\u0301\u0323"),
  "letters with marks": repeated("e\u0301"),
  "soft hyphens": repeated("a\u00ad"),
  "one word without spaces": repeated("漢字"),
  "half surrogates": repeated("\ud83d"),
  // One of them expands to 18 characters, so this is as much text as the harmless one.
  ligatures: (length) => repeated("\ufdfa")(Math.ceil(length / 18)),
  "line ends": repeated("\r\n"),
};

export type Slowest = { readonly ratio: number; readonly what: string; readonly pairs: number };

/**
 * @param length characters of a text in a body
 * @param runs of each pair
 * @throws Error at the first text that takes too long
 */
export async function probePathological(
  probed: ProbedServer,
  length: number,
  runs: number,
): Promise<Slowest> {
  let slowest = { ratio: 0, what: "" };
  let pairs = 0;
  for (const field of fields) {
    // Percent-encoding triples the bytes; request line and headers may have 16 KiB together.
    const chars = field.isHead ? 4_500 : length;
    const plainMs = await fastest(probed, field, harmless(chars), runs + 1, 0);
    for (const [pattern, make] of Object.entries(field.isHead ? headPatterns : bodyPatterns)) {
      const enough = Math.max(plainMs, noiseMs) * (ratioMax / 2);
      const ms = await fastest(probed, field, make(chars), runs, enough);
      const ratio = Math.max(ms, noiseMs) / Math.max(plainMs, noiseMs);
      const what = `${field.name}: ${pattern}`;
      if (ratio > slowest.ratio) slowest = { ratio, what };
      if (ratio > ratioMax) {
        throw new Error(
          `${what}: ${chars} characters took ${ratio.toFixed(0)} times as long as harmless ones`,
        );
      }
      pairs++;
    }
  }
  return { ...slowest, pairs };
}

/** The fastest of some runs, and of up to `runsInDoubt` more while it takes longer than `enoughMs`; 0: no more. */
async function fastest(
  probed: ProbedServer,
  field: Field,
  text: string,
  runs: number,
  enoughMs: number,
): Promise<number> {
  let ms = Number.POSITIVE_INFINITY;
  for (let run = 0; run < runs; run++) ms = Math.min(ms, await msOf(probed, field, text));
  for (let run = 0; run < runsInDoubt && enoughMs > 0 && ms > enoughMs; run++) {
    ms = Math.min(ms, await msOf(probed, field, text));
  }
  return ms;
}

async function msOf(probed: ProbedServer, field: Field, text: string): Promise<number> {
  const begun = performance.now();
  const { status } = await probed.ask(field.path(text), field.ask?.(text));
  const ms = performance.now() - begun;
  if (status >= 500)
    throw new QuiverError("internal", `${field.name} with ${text.slice(0, 40)} was answered with ${status}`);
  return ms;
}
