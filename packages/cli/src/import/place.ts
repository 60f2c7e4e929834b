// What does a message call a place in the input?
//
//   docs.jsonl:18              a line
//   items.csv:19 (row 18)      a row, an item of an array or a record, where it is known on which line it is
//   table.parquet, row 18      the same, where it is not known, or where there are no lines

import type { ImportFormat } from "@quiverdb/import";
import { recordIn } from "@quiverdb/import/place";
import { formatCount } from "../values.ts";
import type { Format } from "./formats.ts";
import { standardInput } from "./input-file.ts";
import type { Item } from "./item.ts";

/** What the items of a file are called. */
export type Unit = "line" | "row" | "item" | "record";

export function unitOf(format: Format | ImportFormat): Unit {
  switch (format) {
    case "jsonl":
      return "line";
    case "json":
      return "item";
    case "chroma":
    case "pinecone":
    case "qdrant":
      return "record";
    default:
      return "row";
  }
}

/** The place of an item. */
export const placeIn = (
  path: string,
  unit: Unit,
  { number, lines }: Pick<Item, "number" | "lines">,
): string => recordIn(nameOf(path), unit, number, unit === "line" ? number : lines?.first);

/** How far an import has come: `line 1,000 of docs.jsonl`. */
export const endOf = (path: string, unit: Unit, number: number): string =>
  `${unit} ${formatCount(number)} of ${nameOf(path)}`;

/** What messages call a file of the command line. */
export const nameOf = (path: string): string => (path === standardInput ? "standard input" : path);
