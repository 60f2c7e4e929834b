// How are the rows of PostgreSQL with pgvector read?
//
// From CSV with a header, as `COPY (SELECT ...) TO STDOUT WITH (FORMAT csv, HEADER)` writes it; or from a table of a server
// (pgvector-table.ts). The values of a CSV file have no types: columns are text, unless `types` says otherwise. NULL is a field without
// quotation marks and without characters.

import { pipeline } from "node:stream";
import { QuiverError, type RecordInput } from "@quiverdb/client";
import { type Info, parse } from "csv-parse";
import type { Format } from "./format.ts";
import type { Found } from "./json-values.ts";
import { columnsOf, defaultColumns, type PgvectorOptions, type Row } from "./pgvector-columns.ts";
import { type PgvectorSource, readTable } from "./pgvector-table.ts";
import { RecordFault } from "./record-fault.ts";
import { idOf } from "./record-parts.ts";
import type { FieldNames } from "./record-reason.ts";
import type { Source } from "./source.ts";

export const pgvector: Format<Row, PgvectorOptions, PgvectorSource> = {
  title: "PostgreSQL",
  pageRecordsMax: 10_000,
  read: readCsv,
  live: readTable,
  record: ({ id, vector, sparse, text, document, metadata, rest }, options) => {
    const all = {
      ...(parsed(metadata ?? null, "json", options.columns?.metadata) as object | null),
      ...Object.fromEntries(
        Object.entries(rest)
          .filter(([, value]) => value !== null)
          .map(([name, value]) => [name, typed(value, name, options)]),
      ),
    };
    const names = namesOf(options);
    return {
      id: idOf(id, names.id),
      ...(typeof vector === "string" && { dense_values: numbersOf(vector, names.dense_values) }),
      ...sparseOf(sparse ?? null, names.sparse_values),
      ...(typeof text === "string" && { text }),
      ...(typeof document === "string" && { document_id: document }),
      ...(Object.keys(all).length > 0 && { metadata: all }),
    };
  },
  names: (_, options) => namesOf(options),
};

/** The metadata comes from many columns, and has no name of its own. */
function namesOf({ columns = {} }: PgvectorOptions): FieldNames {
  const { id, vector, sparse, text, document } = { ...defaultColumns, ...columns };
  return {
    id,
    dense_values: vector,
    sparse_indices: sparse,
    sparse_values: sparse,
    text,
    document_id: document,
  };
}

type Cells = Readonly<Record<string, string | null>>;

async function* readCsv(source: Source, options: PgvectorOptions): AsyncGenerator<Found<Row>> {
  let columns: ReturnType<typeof columnsOf> | undefined;
  for await (const { record: cells, info } of csvRows(source)) {
    columns ??= columnsOf(Object.keys(cells), options, source.title, Object.keys(options.types ?? {}));
    const { parts, rest } = columns;
    const raw = {
      ...Object.fromEntries(parts.map(([part, name]) => [part, cells[name]])),
      rest: Object.fromEntries(rest.map((name) => [name, cells[name]])),
    };
    yield { raw, line: info.lines };
  }
}

async function* csvRows(source: Source): AsyncGenerator<{ record: Cells; info: Info }> {
  const cast = (value: string, { quoting }: { quoting: boolean }) =>
    value === "" && !quoting ? null : value;
  const parser = parse({ bom: true, columns: true, cast, info: true, skip_empty_lines: true });
  // Each ends the other; a fault of the file is thrown where the rows are read.
  pipeline(source, parser, () => undefined);
  try {
    yield* parser;
  } catch (error) {
    const { code, message, lines } = error as { code?: string; message: string; lines?: number };
    if (code?.startsWith("CSV_") !== true) throw error;
    const place = lines === undefined ? source.title : `${source.at(lines)}:`;
    throw new QuiverError("invalid_request", `${place} is not CSV with a header: ${message}.`, {
      line: lines,
    });
  }
}

/** Cells of CSV are texts; values of a table have their types. */
const typed = (value: unknown, name: string, { types }: PgvectorOptions): unknown =>
  typeof value === "string" ? parsed(value, types?.[name] ?? "text", name) : value;

function parsed(
  value: string | null,
  type: "text" | "number" | "boolean" | "json",
  column: string | undefined,
): unknown {
  if (value === null || type === "text") return value;
  const wrong = () => new RecordFault(`has ${value.slice(0, 100)} in ${column}, which is no ${type}`);
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
function numbersOf(text: string, column: string | undefined): number[] {
  if (!/^\[[^[\]]*\]$/.test(text))
    throw new RecordFault(`has no vector in ${column}, but ${text.slice(0, 100)}`);
  return parsed(text, "json", column) as number[];
}

/** `{1:0.5,3:1}/5`, as sparsevec is written; it counts from 1. */
function sparseOf(text: string | null, column: string | undefined): Partial<RecordInput> {
  if (text === null) return {};
  const inside = /^\{(.*)\}\/\d+$/.exec(text)?.[1];
  if (inside === undefined) throw new RecordFault(`has no sparsevec in ${column}, but ${text.slice(0, 100)}`);
  if (inside === "") return {};
  const pairs = inside.split(",").map((pair) => pair.split(":").map(Number));
  return {
    sparse_indices: pairs.map(([index]) => index - 1),
    sparse_values: pairs.map(([, value]) => value),
  };
}
