// Which collection does --create make for these files?
//
// Bare vectors need dense vectors of their dimension. For other files the first records decide: the kinds of content that occur in them are
// enabled, and the length of the first dense vector is the dimension. A server of another database may tell it before.

import { addNeeds, type Needs, needsOf as needsOfSource } from "@quiverdb/import";
import { CommandError, UsageError } from "../exit-codes.ts";
import { hasBareVectors } from "./formats.ts";
import { standardInput } from "./input-file.ts";
import { dimensionOf, type Input, type InputOptions, readItems } from "./inputs.ts";
import { firstPosition, type Item } from "./item.ts";

const recordsLookedAt = 1_000;

/** The kinds and the dimension that the first records need. */
export async function needsOf(inputs: readonly Input[], options: InputOptions): Promise<Needs> {
  const needs = needsOfSource(inputs[0]?.shape ?? {});
  let looked = 0;
  for (const input of inputs) {
    if (input.path === standardInput) {
      throw new UsageError(
        "--create has to read the first records in advance, which is not possible with standard input.",
      );
    }
    if (hasBareVectors(input.format)) needs.dimension ??= await dimensionOf(input, options);
    else
      for (const { json } of await firstRecords(input, options)) {
        addNeeds(needs, JSON.parse(json) as Record<string, unknown>);
        looked++;
      }
  }
  if (needs.dimension === undefined && !needs.sparse && !needs.text) {
    throw new CommandError(
      `${inputs.map(({ path }) => path).join(", ")}: none of the ${looked} records that were looked at has dense_values, sparse_values or a text, so no collection can be created for them. If another column has them, say which: --column dense_values=NAME.`,
    );
  }
  return needs;
}

async function firstRecords(input: Input, options: InputOptions): Promise<Item[]> {
  const items: Item[] = [];
  // What a server tells of its records goes before what the first page has.
  const enough = input.shape === undefined ? recordsLookedAt : 1;
  const anyFields = { ...options, unknown: "ignore" as const };
  for await (const { items: more } of readItems([input], anyFields, firstPosition, 0, () => undefined)) {
    items.push(...more.filter(({ problem }) => !problem));
    if (items.length >= enough) break;
  }
  return items.slice(0, recordsLookedAt);
}
