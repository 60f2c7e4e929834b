// quiver count, quiver facets, quiver update, quiver delete

import { limits } from "@quiverdb/protocol/limits";
import type { FacetValues } from "@quiverdb/protocol/shapes/matching";
import type { Command } from "commander";
import { type ConnectionOptions, connect, parsed, QuiverCommand, withConnection } from "../command.ts";
import { UsageError } from "../exit-codes.ts";
import { type FilterOptions, filterOf, hasCondition, whereHelp, withFilter } from "../filter/option.ts";
import { printJson, printLine, printTable, printWarnings } from "../output.ts";
import { type PastOptions, whenOf, withPast } from "../past.ts";
import { countOf, formatCount, readInteger } from "../values.ts";

export function countCommand(): Command {
  const command = new QuiverCommand("count").argument("<collection>").addHelpText("after", whereHelp);
  return withConnection(withPast(withFilter(command, "count only matching records"))).action(
    async (name: string, options: ConnectionOptions & FilterOptions & PastOptions) => {
      const answer = await (await connect(options)).request("countVectors", {
        params: { collection_id: name },
        body: { filter: filterOf(options), ...whenOf(options) },
      });
      if (options.json) printJson(answer);
      else printLine(String(answer.count));
      printWarnings(answer);
    },
  );
}

export function facetsCommand(): Command {
  const command = new QuiverCommand("facets")
    .argument("<collection>")
    .argument("<fields...>", "fields of the metadata")
    .option(
      "--limit <n>",
      "values of a field at most",
      parsed((text) => readInteger(text, 1, limits.facetMax)),
      limits.facetDefault,
    )
    .addHelpText("after", whereHelp);
  return withConnection(withPast(withFilter(command, "only matching records"))).action(
    async (
      name: string,
      fields: readonly string[],
      options: ConnectionOptions & FilterOptions & PastOptions & { limit: number },
    ) => {
      const answer = await (await connect(options)).request("facetVectors", {
        params: { collection_id: name },
        body: { fields: [...fields], limit: options.limit, filter: filterOf(options), ...whenOf(options) },
      });
      if (options.json) printJson(answer);
      else {
        const facets = Object.entries(answer.facets as Record<string, FacetValues>);
        const rows = facets.flatMap(([field, values]) => values.map((each) => ({ field, ...each })));
        printTable(
          rows,
          [
            { title: "FIELD", value: ({ field }) => field },
            { title: "RECORDS", value: ({ count }) => count, right: true, format: formatCount },
            { title: "VALUE", value: ({ value }) => String(value) },
          ],
          "No record has a value there.",
        );
      }
      printWarnings(answer);
    },
  );
}

type ChangeOptions = ConnectionOptions & FilterOptions & { yes?: boolean };

export function updateCommand(): Command {
  const command = new QuiverCommand("update")
    .argument("<collection>")
    .requiredOption(
      "--set <patch>",
      'JSON merged into the metadata: {"seen":true,"tags":null} sets a field and removes another one',
      parsed(readPatch),
    )
    .option("--yes", "confirm the change (required; there is no prompt)")
    .addHelpText("after", whereHelp);
  return withConnection(withFilter(command, "the records to change (required)")).action(
    async (name: string, options: ChangeOptions & { set: Patch }) => {
      const { client, request } = await confirmed(name, options, "change");
      const body = { ...request.body, metadata: options.set };
      const answer = await client.request("updateMatching", { ...request, body });
      if (options.json) printJson(answer);
      else printLine(`Changed ${countOf(answer.updated, "record")}.`);
      printWarnings(answer);
    },
  );
}

type Patch = Record<string, unknown>;

function readPatch(text: string): Patch {
  const patch: unknown = JSON.parse(text);
  if (typeof patch !== "object" || patch === null || Array.isArray(patch))
    throw new Error("expected a JSON object");
  return patch as Patch;
}

export function deleteCommand(): Command {
  const command = new QuiverCommand("delete")
    .argument("<collection>")
    .option("--yes", "confirm the deletion (required; there is no prompt)")
    .addHelpText("after", whereHelp);
  return withConnection(withFilter(command, "the records to delete (required)")).action(
    async (name: string, options: ChangeOptions) => {
      const { client, request } = await confirmed(name, options, "permanently delete");
      const answer = await client.request("deleteMatching", request);
      if (options.json) printJson(answer);
      else printLine(`Deleted ${countOf(answer.deleted, "record")}.`);
      printWarnings(answer);
    },
  );
}

/** What a change by filter is asked for. @throws UsageError without a condition, or without --yes: with the number of records */
async function confirmed(name: string, options: ChangeOptions, doing: string) {
  const filter = filterOf(options);
  if (filter === undefined) throw new UsageError(`Nothing to ${doing}; give --where or --filter.`);
  if (!hasCondition(filter))
    throw new UsageError(
      "The filter has no condition, so that every record would match. If you mean that, write --where 'id exists'.",
    );
  const client = await connect(options);
  const request = { params: { collection_id: name }, body: { filter } };
  if (options.yes) return { client, request };
  const found = await client.request("countVectors", request);
  printWarnings(found);
  throw new UsageError(
    `This would ${doing} ${countOf(found.count, "record")} of ${JSON.stringify(name)}. Repeat the command with --yes to confirm.`,
  );
}
