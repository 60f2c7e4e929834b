// How does the command line name another database, and what is read of it?

import type { ImportFormat, LiveSources } from "@quiverdb/import";
import type { ColumnNames } from "@quiverdb/import/files/columns";
import type { Foreign } from "@quiverdb/import/files/foreign";
import { UsageError } from "../exit-codes.ts";
import { optionNames } from "./formats.ts";

/** The variables with the keys of the servers. PostgreSQL has its own ones, which its client reads. */
const keyVariables = {
  chroma: "CHROMA_API_KEY",
  pinecone: "PINECONE_API_KEY",
  qdrant: "QDRANT_API_KEY",
} as const;

export const isAddress = (source: string): boolean => /^[a-z][a-z\d+.-]*:\/\//i.test(source);

/** The options of a format, as the command line has them. @throws UsageError for a field that cannot be named */
export function foreignOptions(
  format: ImportFormat,
  columns: ColumnNames,
  omit: readonly string[],
): Foreign["options"] {
  const known = optionNames[format];
  const unknown = Object.keys(columns).filter((field) => !Object.hasOwn(known, field));
  if (unknown.length > 0)
    throw new UsageError(
      `--column ${unknown[0]}=...: of --from ${format} the fields ${Object.keys(known).join(", ")} can be named.`,
    );
  if (omit.length > 0 && format !== "pgvector")
    throw new UsageError("--omit leaves out columns of --from pgvector.");
  const named = Object.fromEntries(Object.entries(columns).map(([field, name]) => [known[field], name]));
  if (format !== "pgvector") return named;
  return { columns: named, ...(omit.length > 0 && { omit }) };
}

/**
 * A running server.
 * @param address of the server, or a connection string
 * @param name of the collection, index or table
 * @throws UsageError for a namespace that is none of Pinecone, or a key that is missing
 */
export function foreignServer(
  format: ImportFormat,
  address: string,
  name: string,
  namespace: string | undefined,
): LiveSources[ImportFormat] {
  if (namespace !== undefined && format !== "pinecone")
    throw new UsageError("--namespace belongs to --from pinecone.");
  if (format === "pgvector") return { url: address, table: name };
  const apiKey = process.env[keyVariables[format]];
  if (format !== "pinecone")
    return { url: address, collection: name, ...(apiKey !== undefined && { apiKey }) };
  if (apiKey === undefined) throw new UsageError(`Give the key of Pinecone in ${keyVariables.pinecone}.`);
  return { url: address, apiKey, index: name, ...(namespace !== undefined && { namespace }) };
}

/** What messages, states and reports call a server: without the password that its address may have. */
export function nameOfServer(address: string, name: string, namespace?: string): string {
  const url = URL.parse(address);
  if (url === null) throw new UsageError("The address of the server cannot be read.");
  const { protocol, host, pathname } = url;
  const inside = namespace === undefined ? name : `${name}/${namespace}`;
  return `${protocol}//${host}${pathname === "/" ? "" : pathname}#${inside}`;
}
