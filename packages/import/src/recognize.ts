// Which database has written an export?
//
//   beginning of the file --> records --> marks of each --> one database for all of them, or why that is not clear
//
// Recognized is only what is then read without losing anything: every record that is looked at has marks of one database, and at its top
// level nothing that this database's records do not have. A record with a mark of Quiver's is Quiver's, whatever else it has: its reader
// says what is wrong with it.

import { parse } from "csv-parse/sync";
import { areLines, elementsOf, exportPages, type JsonObject, parsed } from "./json-values.ts";
import { hasNoVector, queryWithValues } from "./pinecone.ts";

/** What the beginning of a file looks like. */
export type Recognition =
  /** An export of this database; `what` says by what it was recognized: `points of Qdrant with "payload" and "vector"`. */
  | { readonly format: "chroma" | "pgvector" | "pinecone" | "qdrant"; readonly what: string }
  /** It has something of these databases, and cannot be read as an export of one without a loss; `why` says what else it has: `line 3 has "title", which points of Qdrant do not have`. */
  | {
      readonly format: undefined;
      readonly candidates: readonly ("chroma" | "pinecone" | "qdrant")[];
      readonly why: string;
    };

/** As much of a file as is looked at: several records of the largest dimension that embeddings have. */
export const recognizedBytes = 1024 * 1024;
const recordsLookedAt = 100;

/** A form of records of a database: what they have at their top level, the marks of the form with what they must be. */
type Form = {
  readonly format: "chroma" | "pinecone" | "qdrant";
  readonly title: string;
  /** What its records are called. */
  readonly noun: string;
  readonly marks: Readonly<Record<string, (value: unknown) => boolean>>;
  readonly others: readonly string[];
};

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isList = (value: unknown): boolean => Array.isArray(value);
const isVector = (value: unknown): boolean => isList(value) || isObject(value);
const isSparse = (value: unknown): boolean => isObject(value) && ("indices" in value || "values" in value);

const isText = (value: unknown): boolean => typeof value === "string";

const forms: readonly Form[] = [
  {
    format: "chroma",
    title: "Chroma",
    noun: "pages",
    marks: { ids: isList, embeddings: isList, documents: isList, metadatas: isList },
    others: ["uris", "data", "included"],
  },
  {
    format: "chroma",
    title: "Chroma",
    noun: "records",
    marks: { embedding: isList, document: isText },
    others: ["id", "metadata", "uri"],
  },
  {
    format: "pinecone",
    title: "Pinecone",
    noun: "vectors",
    marks: { values: isList, sparseValues: isSparse, sparse_values: isSparse },
    others: ["id", "metadata", "score"],
  },
  {
    format: "qdrant",
    title: "Qdrant",
    noun: "points",
    marks: { payload: (value) => value === null || isObject(value), vector: isVector, vectors: isVector },
    others: ["id", "version", "score", "shard_key", "order_value"],
  },
];

const ours: Form["marks"] = {
  dense_values: () => true,
  document_id: () => true,
  sparse_indices: () => true,
  sparse_values: isList,
  text: isText,
};

/**
 * Finds out which database has written an export.
 * @param head the beginning of the file, decompressed; of `recognizedBytes` or more, if the file has so many
 * @returns undefined if nothing in it is another database's
 */
export function recognize(head: Uint8Array): Recognition | undefined {
  const text = new TextDecoder().decode(head).trimStart();
  return /^[{[]/.test(text) || areLines(text) ? recognizeJson(text) : recognizeCsv(text);
}

function recognizeJson(text: string): Recognition | undefined {
  let found: Extract<Recognition, { what: string }> | undefined;
  for (const { value, place, isInPage, isMatch } of recordsOf(text)) {
    if (!isObject(value)) continue;
    // Of a later one the beginning may have ended before its values.
    if (isMatch && found === undefined && "score" in value && hasNoVector(value))
      return { format: undefined, candidates: [], why: `${place} ${queryWithValues}` };
    if (has(value, ours).length > 0 && found === undefined) {
      if (!isInPage) return undefined;
      const why = `${place} is a request or an answer of Quiver; write the records in it to the file, one a line`;
      return { format: undefined, candidates: [], why };
    }
    const one = recognizeRecord(value, place);
    if (one?.format === undefined) {
      if (one !== undefined) return one;
      continue;
    }
    if (found !== undefined && one.format !== found.format) {
      const candidates = [found.format, one.format] as Form["format"][];
      const why = `${place} has ${one.what}, and what is before it are ${found.what}`;
      return { format: undefined, candidates, why };
    }
    found ??= one;
  }
  return found;
}

function recognizeRecord(record: JsonObject, place: string): Recognition | undefined {
  const marked = forms.filter(({ marks }) => has(record, marks).length > 0);
  if (marked.length === 0) return undefined;
  const unclear = (why: string): Recognition => ({
    format: undefined,
    candidates: [...new Set(marked.map(({ format }) => format))],
    why: `${place} ${why}`,
  });
  if (marked.length > 1) {
    const each = marked.map(
      ({ marks, noun, title }) => `${listed(has(record, marks))} of ${noun} of ${title}`,
    );
    return unclear(`has ${each.join(", and ")}`);
  }
  const [{ format, title, noun, marks, others }] = marked;
  const own = has(record, marks);
  const more = Object.keys(record).filter((name) => !Object.hasOwn(marks, name) && !others.includes(name));
  if (more.length > 0)
    return unclear(`has ${listed(own)}, but also ${listed(more)}, which ${noun} of ${title} do not have`);
  if (format === "chroma" && Array.isArray(record.ids) && Array.isArray(record.ids[0]))
    return {
      format: undefined,
      candidates: [],
      why: `${place} is the answer to a query of Chroma; write what collection.get() gives to the file`,
    };
  return { format, what: `${noun} of ${title} with ${listed(own)}` };
}

const has = (record: JsonObject, marks: Form["marks"]): string[] =>
  Object.keys(marks).filter((name) => Object.hasOwn(record, name) && marks[name](record[name]));

/** `"a", "b" and "c"`; of many the first ones. */
function listed(all: readonly string[]): string {
  const some = all.slice(0, 5).map((name) => JSON.stringify(name));
  if (all.length > some.length) some.push(`${all.length - some.length} more`);
  return some.length === 1 ? some[0] : `${some.slice(0, -1).join(", ")} and ${some.at(-1)}`;
}

type Placed = {
  readonly value: unknown;
  readonly place: string;
  readonly isInPage: boolean;
  /** Of the answer to a query of Pinecone. */
  readonly isMatch: boolean;
};

/** The first records of a text, which may be cut off anywhere. */
function* recordsOf(text: string): Generator<Placed> {
  let count = 0;
  for (const { value, line } of documentsOf(text)) {
    const { records, isPage } = unwrapped(value);
    for (const record of records) {
      count++;
      const place = line === undefined ? `record ${count}` : `line ${line}`;
      yield { value: record, place, isInPage: isPage, isMatch: isPage && "matches" in (value as JsonObject) };
      if (count === recordsLookedAt) return;
    }
  }
}

function* documentsOf(text: string): Generator<{ value: unknown; line?: number }> {
  let isAny = false;
  if (areLines(text))
    for (const [i, line] of text.split("\n").entries()) {
      const value = parsed(line);
      if (value === undefined) continue;
      isAny = true;
      yield { value, line: i + 1 };
    }
  // One line that is longer than what was read is a document that is cut off.
  if (!isAny) for (const each of cutDocuments(text)) yield { value: parsed(each) };
}

/** The records in an array or a page, or the value itself. */
function unwrapped(value: unknown): { records: readonly unknown[]; isPage: boolean } {
  if (Array.isArray(value)) return { records: value, isPage: false };
  if (!isObject(value) || "id" in value) return { records: [value], isPage: false };
  const records = elementsOf(value, [...exportPages.qdrant, ...exportPages.pinecone]);
  return { records, isPage: records[0] !== value };
}

/** The documents of a text that follow each other. The last one, if it is cut off, ends with its last whole value. */
function* cutDocuments(text: string): Generator<string> {
  let start = 0;
  /** What would close the document here. */
  let closing = "";
  let cut = { at: 0, closing: "" };
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (character === '"') {
      for (i++; i < text.length && text[i] !== '"'; i++) if (text[i] === "\\") i++;
    } else if (character === "{" || character === "[") {
      if (closing === "") start = i;
      closing = (character === "{" ? "}" : "]") + closing;
      cut = { at: i + 1, closing };
    } else if (character === ",") cut = { at: i, closing };
    else if (character === "}" || character === "]") {
      closing = closing.slice(1);
      cut = { at: i + 1, closing };
      if (closing === "") yield text.slice(start, i + 1);
    }
  }
  if (closing !== "") yield text.slice(start, cut.at) + cut.closing;
}

/** A vector as pgvector writes it, without spaces; with them, lists of other programs are written. */
const pgVector = /^\[-?[\d.]+(?:e[+-]?\d+)?(?:,-?[\d.]+(?:e[+-]?\d+)?)*\]$/i;

/** A table that is read without naming its columns: `id` and `embedding`, which has vectors. */
function recognizeCsv(text: string): Recognition | undefined {
  const rows = csvRows(text);
  const [header = [], ...others] = rows;
  const column = header.indexOf("embedding");
  if (column < 0 || !header.includes("id") || header.includes("dense_values")) return undefined;
  const cells = others.map((row) => row[column] ?? "").filter((cell) => cell !== "");
  if (cells.length === 0 || !cells.every((cell) => pgVector.test(cell))) return undefined;
  return { format: "pgvector", what: 'rows of pgvector with "id" and vectors in "embedding"' };
}

function csvRows(text: string): string[][] {
  const rows: string[][] = [];
  try {
    parse(text, {
      to: recordsLookedAt,
      relax_column_count: true,
      skip_empty_lines: true,
      on_record: (row: string[]) => {
        rows.push(row);
        return null;
      },
    });
  } catch {
    // It is no CSV, or the last row is cut off. What was read before tells enough.
  }
  return rows;
}
