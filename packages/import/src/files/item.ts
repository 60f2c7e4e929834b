// Which items are in the files of an import, and where?

import { nameOf, recordIn } from "../place.ts";
import type { FieldNames } from "../record-reason.ts";
import type { Unit } from "./formats.ts";

/** A position in the input, just after an item. */
export type Position = {
  /** Index of the file in the command's list. */
  readonly file: number;
  /** Bytes of the file's content before it; of the uncompressed content if the file is compressed. */
  readonly offset: number;
  /** Lines, rows, items or records before it in this file. */
  readonly number: number;
  /** The line on which the last of them ends, where these are no lines and it is known. */
  readonly line?: number;
  /** Of another database: the cursor behind it. */
  readonly cursor?: string;
};

export const firstPosition: Position = { file: 0, offset: 0, number: 0 };

/** A record of the input, or invalid content in its place. */
export type Item = {
  /** Line, row, item or record, from 1. */
  readonly number: number;
  /** Where these are no lines: those on which it begins and ends, if they are known. */
  readonly lines?: { readonly first: number; readonly last: number };
  /** Offset just after it. */
  readonly end: number;
  /** The record as JSON text, ready to be sent; for a problem, the original line, perhaps truncated. */
  readonly json: string;
  /** The record's id, if it has one. */
  readonly id: string | undefined;
  /** What the file calls the fields of the record, where it has other names for them. */
  readonly names?: FieldNames;
  /** Unknown fields that were removed from it: `metadta`, `sparse_values[].weight`. */
  readonly ignored?: readonly string[];
  /** Of another database: the cursor behind it, if it is the last item of its page; and whether it is not. */
  readonly cursor?: string;
  readonly isWithin?: boolean;
  /** Why it cannot be sent. */
  readonly problem?: { readonly code: string; readonly reason: string };
};

/** Where a reader starts: at the beginning, or where an earlier import stopped. */
export type ReadFrom = Omit<Position, "file">;

/** What a message calls the place of an item: `docs.jsonl:18`, `items.csv:19 (row 18)`, `table.parquet, row 18`. */
export const placeIn = (
  path: string,
  unit: Unit,
  { number, lines }: Pick<Item, "number" | "lines">,
): string => recordIn(nameOf(path), unit, number, unit === "line" ? number : lines?.first);
