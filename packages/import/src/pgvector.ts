// How is an export of PostgreSQL with pgvector read?
//
// CSV with a header, as `COPY (SELECT ...) TO STDOUT WITH (FORMAT csv, HEADER)` writes it. The values of a CSV file have no types: columns
// are text, unless `types` says otherwise. NULL is a field without quotation marks and without characters.

import { pipeline } from "node:stream";
import { QuiverError, type RecordInput } from "@quiver/client";
import { parse } from "csv-parse";
import { idOf, invalidRecord } from "./record-parts.ts";
import type { Source } from "./source.ts";

/** How the table of pgvector is read. */
export type PgvectorOptions = {
  /** Which column is what. Columns that are named nowhere become metadata. */
  columns?: {
    /** Default "id". */
    id?: string;
    /** A column of the type vector or halfvec. Default "embedding". */
    vector?: string;
    /** A column of the type sparsevec. Default: none. */
    sparse?: string;
    /** Default: none. */
    text?: string;
    /** Default: none. */
    document?: string;
    /** A column of the type json or jsonb whose object becomes the metadata, beside the other columns. Default: none. */
    metadata?: string;
  };
  /** Types of the columns that become metadata. Default: text. */
  types?: Readonly<Record<string, "text" | "number" | "boolean" | "json">>;
};

type Row = Readonly<Record<string, string | null>>;

export async function* readPgvector(source: Source, options: PgvectorOptions): AsyncGenerator<RecordInput> {
  const columns = { id: "id", vector: "embedding", ...options.columns };
  const own = new Set(Object.values(columns));
  let record = 0;
  let isChecked = false;
  for await (const row of rows(source)) {
    if (!isChecked) checkColumns(row, columns, options);
    isChecked = true;
    const at = (column: string | undefined) => (column === undefined ? null : row[column]);
    const metadata = {
      ...(parsed(at(columns.metadata), "json", columns.metadata, record) as object | null),
      ...Object.fromEntries(
        Object.entries(row)
          .filter(([name, value]) => !own.has(name) && value !== null)
          .map(([name, value]) => [name, parsed(value, options.types?.[name] ?? "text", name, record)]),
      ),
    };
    const [vector, text, document_id] = [at(columns.vector), at(columns.text), at(columns.document)];
    yield {
      id: idOf(at(columns.id), record),
      ...(vector !== null && { dense_values: numbersOf(vector, record) }),
      ...sparseOf(at(columns.sparse), record),
      ...(text !== null && { text }),
      ...(document_id !== null && { document_id }),
      ...(Object.keys(metadata).length > 0 && { metadata }),
    };
    record++;
  }
}

async function* rows(source: Source): AsyncGenerator<Row> {
  const cast = (value: string, { quoting }: { quoting: boolean }) =>
    value === "" && !quoting ? null : value;
  const parser = parse({ bom: true, columns: true, cast, skip_empty_lines: true });
  // Each ends the other; a fault of the file is thrown where the rows are read.
  pipeline(source, parser, () => undefined);
  try {
    yield* parser;
  } catch (error) {
    const { code, message, lines } = error as { code?: string; message: string; lines?: number };
    if (code?.startsWith("CSV_") !== true) throw error;
    throw new QuiverError("invalid_request", `The file is not CSV with a header: ${message}.`, {
      line: lines,
    });
  }
}

/** A column that is named but missing would be dropped silently. */
function checkColumns(row: Row, columns: Readonly<Record<string, string>>, { types }: PgvectorOptions): void {
  const wanted = [...Object.values(columns), ...Object.keys(types ?? {})];
  const missing = wanted.filter((name) => !Object.hasOwn(row, name));
  if (missing.length === 0) return;
  throw new QuiverError(
    "invalid_request",
    `The file has no column ${missing.join(", ")}; it has ${Object.keys(row).join(", ")}. Name the columns with the option columns.`,
    { missing },
  );
}

function parsed(
  value: string | null,
  type: "text" | "number" | "boolean" | "json",
  column: string | undefined,
  record: number,
): unknown {
  if (value === null || type === "text") return value;
  const wrong = () =>
    invalidRecord(record, `has ${value.slice(0, 100)} in the column ${column}, which is no ${type}`);
  if (type === "boolean") {
    if (!["t", "f", "true", "false"].includes(value)) throw wrong();
    return value.startsWith("t");
  }
  if (type === "number") {
    const number = value.trim() === "" ? Number.NaN : Number(value);
    if (!Number.isFinite(number)) throw wrong();
    return number;
  }
  try {
    return JSON.parse(value);
  } catch {
    throw wrong();
  }
}

/** `[1,2,3]`, as vector and halfvec are written. */
function numbersOf(text: string, record: number): number[] {
  if (!/^\[[^[\]]*\]$/.test(text)) throw invalidRecord(record, `has no vector, but ${text.slice(0, 100)}`);
  return parsed(text, "json", "of the vector", record) as number[];
}

/** `{1:0.5,3:1}/5`, as sparsevec is written; it counts from 1. */
function sparseOf(text: string | null, record: number): Partial<RecordInput> {
  if (text === null) return {};
  const inside = /^\{(.*)\}\/\d+$/.exec(text)?.[1];
  if (inside === undefined) throw invalidRecord(record, `has no sparsevec, but ${text.slice(0, 100)}`);
  if (inside === "") return {};
  const pairs = inside.split(",").map((pair) => pair.split(":").map(Number));
  return {
    sparse_indices: pairs.map(([index]) => index - 1),
    sparse_values: pairs.map(([, value]) => value),
  };
}
