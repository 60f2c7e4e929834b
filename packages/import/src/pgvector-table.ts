// How is a table of PostgreSQL read while the server runs?
//
// A page after the other in the order of the ids: `WHERE id > $1 ORDER BY id LIMIT n`. So a page costs the same wherever it is, an import
// goes on behind any id, and rows that are written meanwhile move no others. Columns of vectors and of the record's parts come as the texts
// that PostgreSQL writes, all others together as JSON, so that numbers, times and arrays do not depend on the types that a client parses.

import { QuiverError } from "@quiverdb/client";
import type { Live, LiveReading, Metric, SourceShape } from "./format.ts";
import { peer } from "./peer.ts";
import { columnsOf, type PgvectorOptions, type Row } from "./pgvector-columns.ts";

/** What is used of the client `pg`: a client that is connected, or a pool. */
export type PgClientLike = {
  /** Runs a statement with its parameters. */
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
};

/** A table, or a view, of a server: by a client, or by a connection string such as `postgres://user@host/database`. */
export type PgvectorSource = {
  /** As in SQL: `items`, `shop.items`, `"My items"`. */
  table: string;
} & ({ client: PgClientLike } | { url: string | URL });

type OwnClient = PgClientLike & {
  connect(): Promise<unknown>;
  end(): Promise<void>;
  on(event: "error", listener: () => void): unknown;
};
type PgModule = { Client: new (options: { connectionString: string }) => OwnClient };

type Column = { readonly name: string; readonly type: string; readonly modifier: number };

const vectorTypes: readonly string[] = ["vector", "halfvec", "sparsevec"];

/** Operator classes of pgvector's indexes, behind the type's name. */
const metrics: Readonly<Record<string, Metric>> = {
  cosine_ops: "cosine",
  l2_ops: "euclidean",
  ip_ops: "dot_product",
};

export async function readTable(
  source: PgvectorSource,
  options: PgvectorOptions,
  reading: LiveReading,
): Promise<Live<Row>> {
  if (options.types !== undefined)
    throw new QuiverError(
      "invalid_request",
      "The option types belongs to CSV files; the columns of a table have their types.",
    );
  const own = "client" in source ? undefined : await connected(source.url, reading);
  const client = "client" in source ? source.client : (own as OwnClient);
  const close = async () => own?.end();
  try {
    return { ...(await openTable(client, source.table, options, reading)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function connected(url: string | URL, { ask }: LiveReading): Promise<OwnClient> {
  const { Client } = await peer<PgModule>("pg", "PostgreSQL");
  const client = new Client({ connectionString: String(url) });
  // A connection that is lost fails the next query; without a listener the event would end the process.
  client.on("error", () => undefined);
  try {
    await ask(() => client.connect());
  } catch (error) {
    // Not waited for: a server that never answers does not say goodbye either.
    client.end().catch(() => undefined);
    throw error;
  }
  return client;
}

async function openTable(
  client: PgClientLike,
  name: string,
  options: PgvectorOptions,
  { pageRecords, ask }: LiveReading,
): Promise<Omit<Live<Row>, "close">> {
  const rowsOf = async <T>(text: string, values: unknown[] = []) =>
    (await ask(() => client.query(text, values))).rows as T[];
  const [{ table }] = await rowsOf<{ table: string | null }>("SELECT to_regclass($1)::text AS table", [name]);
  if (table === null) throw new QuiverError("invalid_request", `There is no table ${name}.`, { table: name });
  const columns = await rowsOf<Column>(columnsQuery, [table]);
  const what = `The table ${table}`;
  const { parts, rest } = columnsOf(
    columns.map((column) => column.name),
    options,
    what,
  );
  refuseMoreVectors(what, columns, rest);
  const id = parts.find(([part]) => part === "id")?.[1] as string;
  const [{ total, ids }] = await rowsOf<{ total: string; ids: string }>(
    `SELECT count(*)::text AS total, count(DISTINCT ${quoted(id)})::text AS ids FROM ${table}`,
  );
  if (total !== ids)
    throw new QuiverError(
      "invalid_request",
      `${what} has ${total} rows and ${ids} different values in the column ${id}; an id belongs to one record. Name another column with columns.id.`,
      { column: id, rows: Number(total), ids: Number(ids) },
    );
  const page = pageQuery(table, columns, parts, rest, id, pageRecords);
  async function* pages(from: string | undefined) {
    for (let after = from; ; ) {
      const values = after === undefined ? [] : [after];
      const found = await rowsOf<Record<string, string | null>>(page(after !== undefined), values);
      const raws = found.map(({ rest: others, ...row }) => ({ ...row, rest: JSON.parse(others ?? "{}") }));
      const last = raws.at(-1) as { id?: string } | undefined;
      after = raws.length < pageRecords ? undefined : last?.id;
      yield { raws, next: after ?? null };
      if (after === undefined) return;
    }
  }
  const shape = await shapeOf(table, columns, parts, rowsOf);
  return { shape, recordsTotal: Number(total), pages };
}

const columnsQuery = `
  SELECT a.attname AS name, t.typname AS type, a.atttypmod AS modifier
  FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
  WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped
  ORDER BY a.attnum`;

/** A record has one dense and one sparse vector; further ones would become texts in the metadata. */
function refuseMoreVectors(what: string, columns: readonly Column[], rest: readonly string[]): void {
  const more = columns.filter(({ name, type }) => rest.includes(name) && vectorTypes.includes(type));
  if (more.length === 0) return;
  const names = more.map(({ name }) => name);
  throw new QuiverError(
    "invalid_request",
    `${what} has further vectors in ${more.map(({ name, type }) => `${name} (${type})`).join(", ")}; a record has one dense and one sparse vector. Choose with columns.vector and columns.sparse, and leave the others out with omit.`,
    { columns: names },
  );
}

/** The query of a page. */
function pageQuery(
  table: string,
  columns: readonly Column[],
  parts: readonly (readonly [part: string, name: string])[],
  rest: readonly string[],
  id: string,
  limit: number,
): (isLater: boolean) => string {
  const textOf = (name: string) => {
    const column = `t.${quoted(name)}`;
    // Arrays of numbers may hold vectors, too.
    const isArray = columns.find((one) => one.name === name)?.type.startsWith("_");
    return isArray ? `to_jsonb(${column})::text` : `${column}::text`;
  };
  const selected = parts.map(([part, name]) => `${textOf(name)} AS ${quoted(part)}`);
  if (rest.length > 0) {
    const others = rest.map((name) => `t.${quoted(name)}`).join(", ");
    selected.push(`(SELECT to_jsonb(r) FROM (SELECT ${others}) AS r)::text AS rest`);
  }
  return (isLater) =>
    [
      `SELECT ${selected.join(", ")} FROM ${table} AS t`,
      isLater ? `WHERE t.${quoted(id)} > $1` : "",
      `ORDER BY t.${quoted(id)} LIMIT ${limit}`,
    ].join(" ");
}

/** The dimension that the vector's column was declared with, and the metric of its indexes. */
async function shapeOf(
  table: string,
  columns: readonly Column[],
  parts: readonly (readonly [part: string, name: string])[],
  rowsOf: <T>(text: string, values: unknown[]) => Promise<T[]>,
): Promise<SourceShape> {
  const vector = parts.find(([part]) => part === "vector")?.[1];
  const column = columns.find(({ name }) => name === vector);
  const classes = await rowsOf<{ name: string }>(
    `SELECT DISTINCT c.opcname AS name FROM pg_index i
     JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
     JOIN pg_opclass c ON c.oid = i.indclass[0]
     WHERE i.indrelid = $1::regclass AND a.attname = $2`,
    [table, vector],
  );
  const names = classes.map(({ name }) => name.replace(/^[^_]+_/, ""));
  const has = (part: string) => parts.some(([name]) => name === part);
  const kinds = { sparse: has("sparse"), text: has("text") };
  const dimension = column !== undefined && column.modifier > 0 ? { dimension: column.modifier } : {};
  if (names.length !== 1) return { ...dimension, ...kinds };
  const [only] = names;
  const metric = Object.hasOwn(metrics, only) ? { metric: metrics[only] } : { otherMetric: only };
  return { ...dimension, ...metric, ...kinds };
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
