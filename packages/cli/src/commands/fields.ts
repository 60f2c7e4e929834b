// quiver fields

import { metadataTypes } from "@quiverdb/protocol/shapes/index-definition";
import { Argument, type Command } from "commander";
import { type ConnectionOptions, connect, QuiverCommand, withConnection } from "../command.ts";
import { printJson, printLine, printTable } from "../output.ts";
import { formatBytes } from "../values.ts";

export function fieldsCommand(): Command {
  const command = new QuiverCommand("fields");
  withConnection(
    command
      .command("list", { isDefault: true })
      .description("the declared fields of a collection and the progress of their indexes")
      .argument("<collection>"),
  ).action(list);
  withConnection(
    command
      .command("declare")
      .description("declare a field of the metadata, so that filters find its values by an index")
      .argument("<collection>")
      .argument("<field>", "a.b is the field b of a")
      .addArgument(new Argument("<type>", "type of its values").choices(metadataTypes))
      .option("--wait", "return when the index has been built"),
  ).action(declare);
  withConnection(
    command
      .command("drop")
      .description("delete the index of a field; the records are kept")
      .argument("<collection>")
      .argument("<field>"),
  ).action(drop);
  return command;
}

async function list(name: string, options: ConnectionOptions): Promise<void> {
  const fields = await (await connect(options)).collection(name).metadataIndexes();
  if (options.json) return printJson(fields);
  printTable(
    fields,
    [
      { title: "FIELD", value: ({ field }) => field },
      { title: "TYPE", value: ({ type }) => type },
      { title: "STATE", value: ({ status }) => status.state },
      { title: "DONE", value: ({ status }) => `${status.percentage_complete.toFixed(1)}%`, right: true },
      { title: "MEMORY", value: ({ status }) => formatBytes(status.memory_bytes), right: true },
    ],
    `${JSON.stringify(name)} has no declared field. Declare one with: quiver fields declare ${name} FIELD keyword`,
  );
}

async function declare(
  name: string,
  field: string,
  type: (typeof metadataTypes)[number],
  options: ConnectionOptions & { wait?: boolean },
): Promise<void> {
  const collection = (await connect(options)).collection(name);
  await collection.createMetadataIndex(field, type);
  if (options.wait) await collection.waitForIndex();
  if (options.json)
    return printJson((await collection.metadataIndexes()).find((one) => one.field === field) ?? null);
  const state = options.wait
    ? "Its index is ready."
    : "Its index is built in the background; filters work meanwhile.";
  printLine(`Declared ${field} of ${JSON.stringify(name)} as ${type}. ${state}`);
}

async function drop(name: string, field: string, options: ConnectionOptions): Promise<void> {
  await (await connect(options)).collection(name).deleteMetadataIndex(field);
  if (options.json) printJson({});
  else printLine(`Dropped the index of ${field} of ${JSON.stringify(name)}.`);
}
