// Which collection does --create make for these files?
//
// Bare vectors need dense vectors of their dimension. For other files the first records decide: the kinds of content that occur in them are
// enabled, and the length of the first dense vector is the dimension. A server of another database may tell it before.

import { addNeeds, type ImportFormat, type Needs, needsOf as needsOfSource } from "@quiverdb/import";
import { type Format, hasBareVectors, hasColumns } from "@quiverdb/import/files/formats";
import { dimensionOf, type Input, type InputOptions } from "@quiverdb/import/files/inputs";
import { firstPosition, type Item, placeIn } from "@quiverdb/import/files/item";
import { standardInput } from "@quiverdb/import/place";
import { CommandError, UsageError } from "../exit-codes.ts";
import { optionNames } from "./formats.ts";
import { readItems } from "./inputs.ts";
import { ofFiles } from "./words.ts";

const recordsLookedAt = 1_000;

/** The kinds and the dimension that the first records need. */
export async function needsOf(inputs: readonly Input[], options: InputOptions): Promise<Needs> {
  const needs = needsOfSource(inputs[0]?.shape ?? {});
  let looked = 0;
  let fault: string | undefined;
  for (const input of inputs) {
    if (input.path === standardInput) {
      throw new UsageError(
        "--create has to read the first records in advance, which is not possible with standard input.",
      );
    }
    if (hasBareVectors(input.format))
      needs.dimension ??= await dimensionOf(input, options).catch((error) => Promise.reject(ofFiles(error)));
    else {
      const { records, faulty } = await firstRecords(input, options);
      for (const { json } of records) addNeeds(needs, JSON.parse(json) as Record<string, unknown>);
      looked += records.length;
      if (faulty !== undefined)
        fault ??= `${placeIn(input.path, input.unit, faulty)}: ${faulty.problem?.reason.replace(/\.?$/, ".")}`;
    }
  }
  if (needs.dimension === undefined && !needs.sparse && !needs.text) {
    if (looked === 0 && fault !== undefined) throw new CommandError(fault);
    const paths = inputs.map(({ path }) => path).join(", ");
    const content =
      options.foreign === undefined ? "dense_values, sparse_values or a text" : "a vector or a text";
    const advice = inputs.some(canNameVectors)
      ? " If another column has them, say which: --column dense_values=NAME."
      : "";
    throw new CommandError(
      `${paths}: none of the ${looked} records that were looked at has ${content}, so no collection can be created for them.${advice}`,
    );
  }
  return needs;
}

/** Whether the option --column can say where the vectors are. */
const canNameVectors = ({ format }: Input): boolean =>
  Object.hasOwn(optionNames, format)
    ? "dense_values" in optionNames[format as ImportFormat]
    : hasColumns(format as Format);

/** The first records that can be sent, and what is before them or instead of them. */
async function firstRecords(
  input: Input,
  options: InputOptions,
): Promise<{ records: Item[]; faulty: Item | undefined }> {
  const records: Item[] = [];
  let faulty: Item | undefined;
  // What a server tells of its records goes before what the first page has.
  const enough = input.shape === undefined ? recordsLookedAt : 1;
  const anyFields = { ...options, unknown: "ignore" as const };
  for await (const { items: more } of readItems([input], anyFields, firstPosition, 0, () => undefined)) {
    faulty ??= more.find(({ problem }) => problem);
    records.push(...more.filter(({ problem }) => !problem));
    if (records.length >= enough) break;
  }
  return { records: records.slice(0, recordsLookedAt), faulty };
}
