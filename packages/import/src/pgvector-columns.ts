// Which column of a row is which part of a record?

import { QuiverError } from "@quiverdb/client";

/** How a table of pgvector is read. */
export type PgvectorOptions = {
  /** Which column is what. Columns that are named nowhere become metadata. */
  columns?: PgvectorColumns;
  /** Columns that are left out. */
  omit?: readonly string[];
  /** Of CSV: types of the columns that become metadata. Default: text. */
  types?: Readonly<Record<string, "text" | "number" | "boolean" | "json">>;
};

/** The columns of a table by what they become. */
export type PgvectorColumns = {
  /** Default "id". Values must be unique. */
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

/** The columns that are read where others are not named. */
export const defaultColumns = { id: "id", vector: "embedding" } as const;

/** The parts of a record as texts, as PostgreSQL writes them, and the other columns. */
export type Row = { readonly [Part in keyof PgvectorColumns]?: string | null } & {
  readonly rest: Readonly<Record<string, unknown>>;
};

/**
 * Which columns are which part of a record, and which become metadata.
 * @param names of all columns
 * @param what they belong to, for messages
 * @param more names that must be there
 * @throws QuiverError invalid_request for a column that is named and missing: it would be dropped silently
 */
export function columnsOf(
  names: readonly string[],
  { columns, omit = [] }: PgvectorOptions,
  what: string,
  more: readonly string[] = [],
): { parts: [part: keyof PgvectorColumns, name: string][]; rest: string[] } {
  const chosen = { ...defaultColumns, ...columns };
  const parts = Object.entries(chosen).filter(([, name]) => name !== undefined) as [
    keyof PgvectorColumns,
    string,
  ][];
  const own = new Set([...parts.map(([, name]) => name), ...omit]);
  const missing = [...own, ...more].filter((name) => !names.includes(name));
  if (missing.length > 0)
    throw new QuiverError(
      "invalid_request",
      `${what} has no column ${missing.join(", ")}; it has ${names.join(", ")}. Name the columns with the option columns.`,
      { missing },
    );
  return { parts, rest: names.filter((name) => !own.has(name)) };
}
