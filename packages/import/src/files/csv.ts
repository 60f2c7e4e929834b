// How are records read from a CSV file?
//
// The first record names the columns; what they mean is in columns.ts. The delimiter is the one of comma, semicolon, tab and bar that the
// first line has most of. A cell is text as far as the field wants text. In the metadata a cell that is a JSON number, true or false is that
// value, with all its digits; any other is a text, and an empty cell is none.

import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { limits } from "@quiverdb/protocol/limits";
import { CsvError, type Info, parse } from "csv-parse";
import { countOf } from "../place.ts";
import { prepended } from "../prepended.ts";
import { type ColumnNames, rowOf, type Table, tableOf } from "./columns.ts";
import { fileFault } from "./faults.ts";
import { openInput, readStart } from "./input-file.ts";
import type { Item, ReadFrom } from "./item.ts";

export type TableOptions = {
  readonly columns: ColumnNames;
  /** Of CSV: cells of the metadata stay texts. */
  readonly asText: boolean;
};

type Parsed = { readonly record: string[]; readonly info: Info };

/** Characters of the parser's message that are told. */
const quotedMax = 200;

const delimiters = [",", ";", "\t", "|"];
/** The header is looked for the delimiter in so many bytes. */
const startBytes = 64 * 1024;
const itemsAtOnce = 256;

/** Yields the rows behind `from`, some at a time. @throws QuiverError invalid_request for wrong columns, source_failed for a file that is no CSV */
export async function* readCsv(
  path: string,
  chunks: AsyncGenerator<Buffer>,
  from: ReadFrom,
  options: TableOptions,
): AsyncGenerator<Item[]> {
  const first = await chunks.next();
  if (first.done) {
    if (from.offset === 0)
      throw fileFault(`${path}: is empty; expected a line with the names of the columns.`);
    return;
  }
  const start = from.offset === 0 ? first.value : await readStart(path, startBytes);
  const delimiter = delimiterOf(start.subarray(0, startBytes).toString());
  let table = from.offset === 0 ? null : await headerOf(path, delimiter, options);
  let { number } = from;
  // Of a state of an earlier release, which has none, lines are not known.
  const linesBefore = from.offset === 0 ? 0 : from.line;
  let linesCounted = 0;
  let linesTwice = 0;
  const linesTo = (counted: number) => {
    const end = counted - linesTwice;
    return linesBefore === undefined ? {} : { lines: { first: linesBefore + end, last: linesBefore + end } };
  };
  let items: Item[] = [];
  for await (const { record, info } of records(path, prepended(first.value, chunks), delimiter)) {
    // Within quotes the parser counts \r\n as the ends of two lines.
    if (info.lines > linesCounted + 1) linesTwice += record.join("\0").split("\r\n").length - 1;
    linesCounted = info.lines;
    if (table === null) {
      table = tableOf(record, options.columns, path);
      continue;
    }
    // Of a row over several lines it is the last one.
    const place = { number: ++number, end: from.offset + info.bytes, ...linesTo(info.lines) };
    items.push(itemOf(table, record, place, options.asText));
    if (items.length < itemsAtOnce) continue;
    yield items;
    items = [];
  }
  if (items.length > 0) yield items;
}

async function headerOf(path: string, delimiter: string, options: TableOptions): Promise<Table> {
  const { chunks } = await openInput(path);
  for await (const { record } of records(path, chunks, delimiter))
    return tableOf(record, options.columns, path);
  throw fileFault(`${path}: has no line with the names of the columns.`);
}

async function* records(
  path: string,
  chunks: AsyncIterable<Buffer>,
  delimiter: string,
): AsyncGenerator<Parsed> {
  const parser = parse({
    bom: true,
    delimiter,
    record_delimiter: ["\r\n", "\n", "\r"],
    info: true,
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: limits.bodyBytesDefault,
  });
  // Its failure is that of the parser, which is thrown below.
  const fed = pipeline(Readable.from(chunks, { objectMode: false }), parser).catch(() => undefined);
  try {
    for await (const parsed of parser) yield parsed as Parsed;
    await fed;
  } catch (error) {
    if (error instanceof CsvError)
      throw fileFault(`${path}: is not CSV: ${shortened(error.message)}.`, error);
    throw error;
  } finally {
    parser.destroy();
  }
}

/** The parser's message quotes the cell, which may be a whole file that is not text, and must not reach a terminal as it is. */
function shortened(message: string): string {
  const printable = message.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\uFFFD]/gu, "?");
  return printable.length > quotedMax ? `${printable.slice(0, quotedMax)}...` : printable;
}

/** The delimiter that the first line has most of, outside of quotes. */
function delimiterOf(start: string): string {
  const line = /^(?:"(?:[^"]|"")*"|[^"\r\n])*/.exec(start)?.[0].replace(/"(?:[^"]|"")*"/g, "") ?? "";
  const times = (delimiter: string) => line.split(delimiter).length;
  return delimiters.reduce((most, each) => (times(each) > times(most) ? each : most));
}

function itemOf(
  table: Table,
  cells: readonly string[],
  place: Pick<Item, "number" | "end" | "lines">,
  asText: boolean,
): Item {
  const { columns } = table;
  if (cells.length !== columns.length) {
    const reason = `has ${countOf(cells.length, "cell")}, but there are ${countOf(columns.length, "column")}`;
    return {
      ...place,
      json: JSON.stringify(cells),
      id: undefined,
      problem: { code: "invalid_vector", reason },
    };
  }
  const texts = columns.map(({ field, isText }, i) => {
    const cell = cells[i];
    if (cell === "") return undefined;
    if (isText) return JSON.stringify(cell);
    return field !== null || (!asText && isValue.test(cell)) ? cell : JSON.stringify(cell);
  });
  return rowOf(table, texts, place);
}

/** A number as JSON has it, true or false. So `007` is a text. */
const isValue = /^(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false)$/;
