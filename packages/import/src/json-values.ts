// Which records are in a JSON file, of whatever layout?
//
//   a document a line             parsed line by line, which is fast
//   an array of records           read as a stream, record by record
//   a page { ...: [records] }     the same; pages may follow each other
//
// The layout is that of the beginning of the file: its first line is a complete document, or it is not.

import { QuiverError } from "@quiverdb/client";
import { JSONParser } from "@streamparser/json";
import { prepended } from "./prepended.ts";

export type JsonObject = { readonly [name: string]: unknown };

/** The longest line that is looked at to find out whether the file is lines of JSON. */
const lineCharsMax = 16 * 1024 * 1024;

/**
 * The objects of a file: elements of its arrays, or the documents themselves.
 * @param pages paths of the arrays or maps of records in a document, such as `result.points`; documents without any are records
 * @throws QuiverError invalid_json with the number of the value, from 0
 */
export async function* jsonObjects(
  chunks: AsyncIterable<Uint8Array>,
  pages: readonly string[],
): AsyncGenerator<JsonObject> {
  let count = 0;
  for await (const value of values(chunks, pages, () => count)) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      const what = JSON.stringify(value).slice(0, 100);
      throw new QuiverError("invalid_json", `Value ${count} of the file is ${what}, expected an object.`, {
        record: count,
      });
    }
    yield value as JsonObject;
    count++;
  }
}

async function* values(
  chunks: AsyncIterable<Uint8Array>,
  pages: readonly string[],
  count: () => number,
): AsyncGenerator<unknown> {
  const texts = decoded(chunks);
  let head = "";
  // The first line that is not empty.
  for (;;) {
    head = head.trimStart();
    if (head.includes("\n") || head.length > lineCharsMax) break;
    const { done, value } = await texts.next();
    if (done === true) break;
    head += value;
  }
  if (head === "") return;
  const [first] = head.split("\n", 1);
  const all = prepended(head, texts);
  const whole = parsed(first);
  if (whole === undefined || first[0] === "[") {
    yield* streamed(all, head[0] === "[" ? [] : pages, head[0] === "[", count);
    return;
  }
  for await (const line of lines(all)) {
    if (line.trim() === "") continue;
    const document = parsed(line);
    if (document === undefined) throw invalidJson(count(), `is not JSON: ${line.slice(0, 100)}`);
    yield* elementsOf(document, pages);
  }
}

/** The records of a document: those of its pages, or itself. */
function elementsOf(document: unknown, pages: readonly string[]): readonly unknown[] {
  for (const page of pages) {
    let at: unknown = document;
    for (const name of page.split(".")) at = (at as JsonObject | null | undefined)?.[name];
    if (typeof at === "object" && at !== null) return Array.isArray(at) ? at : Object.values(at);
  }
  return [document];
}

async function* streamed(
  texts: AsyncIterable<string>,
  pages: readonly string[],
  isArray: boolean,
  count: () => number,
): AsyncGenerator<unknown> {
  const paths = isArray ? ["$.*"] : ["$", ...pages.map((page) => `$.${page}.*`)];
  const parser = new JSONParser({ paths, keepStack: false, separator: "" });
  const found: unknown[] = [];
  let isPage = false;
  let failure: Error | undefined;
  parser.onError = (error) => {
    failure ??= error;
  };
  parser.onValue = ({ value, stack }) => {
    const isDocument = stack.length === 0;
    if (!isDocument || isArray) found.push(value);
    // A document whose records were emitted is no record itself.
    else if (!isPage) found.push(...elementsOf(value, pages));
    isPage = !isDocument;
  };
  for await (const text of texts) {
    parser.write(text);
    yield* found.splice(0);
    if (failure !== undefined) throw invalidJson(count(), `is not JSON: ${failure.message}`);
  }
  if (!parser.isEnded) parser.end();
  yield* found.splice(0);
  if (failure !== undefined) throw invalidJson(count(), `is cut off: ${(failure as Error).message}`);
}

async function* decoded(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for await (const chunk of chunks) yield decoder.decode(chunk, { stream: true });
  yield decoder.decode();
}

async function* lines(texts: AsyncIterable<string>): AsyncGenerator<string> {
  let rest: string[] = [];
  for await (const text of texts) {
    const parts = text.split("\n");
    for (const part of parts.slice(0, -1)) {
      yield rest.join("") + part;
      rest = [];
    }
    rest.push(parts[parts.length - 1]);
  }
  yield rest.join("");
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const invalidJson = (record: number, why: string) =>
  new QuiverError("invalid_json", `Value ${record} of the file ${why}.`, { record });
