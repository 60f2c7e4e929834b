// How are records read from a file of JSON Lines, or of a JSON array?
//
// A record's text is sent to the server as it is in the file, so that numbers that JavaScript cannot represent are preserved. There are two
// exceptions. A record that was read from Quiver has its sparse vector twice, as pairs in sparse_values and as sparse_indices, but writing
// accepts only one form, so sparse_indices is removed from the text. And where they are ignored, unknown fields are removed; otherwise a
// line with one is rejected here, as the server would do.

import { unknownField, unknownFieldError, withoutUnknownFields } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import { VectorInput } from "@quiverdb/protocol/shapes/vector";
import { faultOfJson } from "../json-values.ts";
import { standardInput } from "../place.ts";
import { reasonOf } from "../record-reason.ts";
import { fileFault } from "./faults.ts";
import type { Item, ReadFrom } from "./item.ts";
import { splitArray } from "./json-array.ts";
import { byteOrderMark, type Line, splitLines } from "./lines.ts";

/** The server accepts no larger body, so a longer line cannot be a record. */
const lineBytesMax = limits.bodyBytesDefault;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** How unknown fields are handled. */
export type Unknown = "reject" | "ignore";

/**
 * Yields the records of each chunk; blank lines are skipped.
 * @param path for messages
 * @throws QuiverError source_failed if the records are not written one on a line
 */
export async function* readJsonLines(
  chunks: AsyncIterable<Buffer>,
  from: ReadFrom,
  path: string,
  unknown: Unknown,
): AsyncGenerator<Item[]> {
  const begin = from.offset === 0 ? new Begin(path) : undefined;
  for await (const lines of splitLines(chunks, from, lineBytesMax)) {
    begin?.check(lines);
    const items = lines.map((line) => readLine(line, unknown)).filter((item) => item !== undefined);
    if (items.length > 0) yield items;
  }
}

/** Looks at the first lines: other JSON has hardly a line that is a record, and its faults would be told line by line. */
class Begin {
  readonly #path: string;
  /** The first two lines that are not blank. */
  readonly #lines: string[] = [];

  constructor(path: string) {
    this.#path = path === standardInput ? "The input" : path;
  }

  check(lines: readonly Line[]): void {
    for (const { bytes } of lines) {
      if (this.#lines.length === 2) return;
      const hasMark = bytes?.subarray(0, 3).equals(byteOrderMark);
      const line = (hasMark ? bytes?.subarray(3) : bytes)?.toString("latin1").trim();
      if (line !== "") this.#lines.push(line ?? "");
      this.#refuse();
    }
  }

  #refuse(): void {
    const [first, second] = this.#lines;
    if (first?.startsWith("["))
      throw fileFault(
        `${this.#path} begins with a JSON array, and JSON Lines have one object on each line. Import it with the format json.`,
      );
    // A line that is cut off is a faulty line, which another record follows.
    if (first?.startsWith("{") && !first.endsWith("}") && /^["\d\]}-]/.test(second ?? ""))
      throw fileFault(
        `${this.#path} begins with a JSON object that is written over several lines, and JSON Lines have one object on each line. Write it so, with "jq -c ." for example, or put the objects into a JSON array and import that with the format json.`,
      );
  }
}

/** Yields the records of a JSON array in each chunk. @param path for messages */
export async function* readJsonArray(
  chunks: AsyncIterable<Buffer>,
  from: ReadFrom,
  path: string,
  unknown: Unknown,
): AsyncGenerator<Item[]> {
  for await (const lines of splitArray(chunks, from, path, lineBytesMax))
    yield lines.map((line) => readLine(line, unknown)).filter((item) => item !== undefined);
}

/** The record of a line; undefined for a blank line. */
function readLine({ number, lines, end, bytes, start }: Line, unknown: Unknown): Item | undefined {
  const place = { number, end, ...(lines !== undefined && { lines }) };
  const reject = (json: string, reason: string, code = "invalid_json"): Item => ({
    ...place,
    json,
    id: undefined,
    problem: { code, reason },
  });
  if (!bytes) {
    return reject(
      start?.toString("latin1") ?? "",
      `is longer than ${lineBytesMax} bytes, the maximum size of a request`,
    );
  }
  const hasMark = number === 1 && bytes.subarray(0, 3).equals(byteOrderMark);
  let text: string;
  try {
    text = utf8.decode(hasMark ? bytes.subarray(3) : bytes);
  } catch {
    return reject(bytes.toString("latin1"), "is not UTF-8");
  }
  if (/^\s*$/.test(text)) return undefined;
  let record: unknown;
  try {
    record = JSON.parse(text);
  } catch (error) {
    return reject(text, `is not JSON: ${faultOfJson(error)}`);
  }
  if (typeof record !== "object" || record === null || Array.isArray(record)) {
    return reject(text, "is not a JSON object");
  }
  const { id } = record as { id?: unknown };
  const item = { ...place, json: writable(text, record), id: typeof id === "string" ? id : undefined };
  const found = unknownField(VectorInput, record);
  if (found === undefined) return item;
  if (unknown === "reject") return reject(text, reasonOf(unknownFieldError(found)), "unknown_field");
  return { ...item, ...withoutUnknown(item.json, record) };
}

/** The text of a record without its unknown fields, otherwise unchanged. */
function withoutUnknown(text: string, record: object): { json: string; ignored: readonly string[] } {
  const { value, removed } = withoutUnknownFields(VectorInput, record);
  const known = value as Record<string, unknown>;
  const members = topLevelMembers(text).flatMap(({ key, text: member }) => {
    if (!Object.hasOwn(known, key)) return [];
    const isCut = removed.some((path) => path.startsWith(`${key}[`));
    return [isCut ? `${JSON.stringify(key)}:${JSON.stringify(known[key])}` : member];
  });
  return { json: `{${members.join(",")}}`, ignored: removed };
}

/** The text of a record in the form that an upsert accepts. */
function writable(text: string, record: { sparse_indices?: unknown; sparse_values?: unknown }): string {
  const { sparse_indices: indices, sparse_values: pairs } = record;
  if (!Array.isArray(indices) || !Array.isArray(pairs) || indices.length !== pairs.length) return text;
  // Only if both are equal; the server rejects a contradiction.
  const same = pairs.every((pair, i) => Array.isArray(pair) && pair.length === 2 && pair[0] === indices[i]);
  if (!same || pairs.length === 0) return text;
  const members = topLevelMembers(text).filter(({ key }) => key !== "sparse_indices");
  return `{${members.map(({ text: member }) => member).join(",")}}`;
}

/** The members of a JSON object, each with its exact text `"key": value`. The text must be valid JSON. */
export function topLevelMembers(text: string): { key: string; text: string }[] {
  const members: { key: string; text: string }[] = [];
  let depth = 0;
  let start = -1;
  let keyEnd = -1;
  const finish = (end: number) => {
    if (start < 0) return;
    members.push({ key: JSON.parse(text.slice(start, keyEnd)), text: text.slice(start, end).trimEnd() });
    start = -1;
  };
  for (let i = 0; i < text.length; i++) {
    switch (text[i]) {
      case '"': {
        const end = endOfString(text, i);
        if (depth === 1 && start < 0) {
          start = i;
          keyEnd = end;
        }
        i = end - 1;
        break;
      }
      case "{":
      case "[":
        depth++;
        break;
      case "}":
      case "]":
        depth--;
        if (depth === 0) finish(i);
        break;
      case ",":
        if (depth === 1) finish(i);
        break;
    }
  }
  return members;
}

/** Index just after the string that starts at `at`. */
function endOfString(text: string, at: number): number {
  for (let i = at + 1; i < text.length; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === '"') return i + 1;
  }
  return text.length;
}
