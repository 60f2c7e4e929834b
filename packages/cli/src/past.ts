// How does a command read a collection as it was?

import type { Collection } from "@quiverdb/client";
import type { Command } from "commander";
import { UsageError } from "./exit-codes.ts";

export type PastOptions = { at?: string; asOf?: string };

/** Adds `--at` and `--as-of`. */
export function withPast(command: Command): Command {
  return command
    .option("--at <version>", "as it was at this version: a number, a hash or a tag")
    .option("--as-of <time>", "as it was at this time: 2026-11-27T20:15:00Z");
}

/** The collection, or as it was. @throws UsageError */
export function asItWas(collection: Collection, options: PastOptions): ReturnType<Collection["at"]> {
  const { version, as_of: asOf } = whenOf(options);
  if (version !== undefined) return collection.at({ version });
  return asOf === undefined ? collection : collection.at({ asOf });
}

/** The same as fields of a request. @throws UsageError */
export function whenOf({ at, asOf }: PastOptions): { version?: string; as_of?: string } {
  if (at !== undefined && asOf !== undefined)
    throw new UsageError("--at and --as-of both name a version; give one of them.");
  return { ...(at !== undefined && { version: at }), ...(asOf !== undefined && { as_of: asOf }) };
}
