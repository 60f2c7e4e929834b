// quiver versions

import type { Collection } from "@quiverdb/client";
import { type Command, Option } from "commander";
import { type ConnectionOptions, connect, parsed, QuiverCommand, withConnection } from "../command.ts";
import { UsageError } from "../exit-codes.ts";
import { printJson, printLine, printTable } from "../output.ts";
import { countOf, formatCount, readInteger } from "../values.ts";

const versionNames = "A version is a number, a hash or a tag.";

export function versionsCommand(): Command {
  const command = new QuiverCommand("versions");
  withConnection(
    command
      .command("list", { isDefault: true })
      .description("versions, newest first, with their tags")
      .argument("<collection>")
      .option(
        "--limit <n>",
        "maximum number of versions to list",
        parsed((text) => readInteger(text, 1, 1_000)),
        20,
      )
      .option("--before <n>", "only versions with a smaller number", parsed(readInteger)),
  ).action(list);
  const act = (name: string, description: string, ...args: string[]) => {
    const made = command.command(name).description(description).argument("<collection>");
    for (const each of args) made.argument(each);
    return withConnection(made.addHelpText("after", `\n${versionNames}`));
  };
  act("keep", "say how far back versions can be read", "<history>")
    .addHelpText("after", "<history>: 100 (versions), 3600s (seconds), all, none")
    .action(async (name: string, history: string, options: ConnectionOptions) => {
      const { config } = await (await handle(name, options)).setHistory(readHistory(history));
      if (options.json) return printJson(config);
      printLine(`History of ${JSON.stringify(name)}: ${JSON.stringify(config.history ?? "none")}.`);
    });
  act("tag", "name a version, which stays readable while it has the name", "<tag>", "[version]").action(
    async (name: string, tag: string, version: string | undefined, options: ConnectionOptions) => {
      const made = await (await handle(name, options)).putTag(tag, version);
      if (options.json) return printJson(made);
      printLine(`Tag ${JSON.stringify(tag)} is version ${made.version}.`);
    },
  );
  act("untag", "delete a tag", "<tag>").action(
    async (name: string, tag: string, options: ConnectionOptions) => {
      await (await handle(name, options)).deleteTag(tag);
      if (options.json) return printJson({ deleted: tag });
      printLine(`Deleted the tag ${JSON.stringify(tag)}.`);
    },
  );
  act("restore", "make a version with the records of an earlier one", "<version>").action(
    async (name: string, version: string, options: ConnectionOptions) => {
      const made = await (await handle(name, options)).restoreVersion(version);
      if (options.json) return printJson(made);
      printLine(`Version ${made.version_number} has ${countOf(made.vector_count, "record")}.`);
    },
  );
  act("copy", "make a collection of a version, under another name", "<name>", "[version]").action(
    async (from: string, name: string, version: string | undefined, options: ConnectionOptions) => {
      const copy = await (await handle(from, options)).copy(name, version === undefined ? {} : { version });
      const { origin, vectors_count } = await copy.describe();
      if (options.json) return printJson({ name, origin, records: vectors_count });
      printLine(`${JSON.stringify(name)} has ${countOf(vectors_count, "record")}.`);
    },
  );
  withConnection(
    command
      .command("merge")
      .description("take over what a copy has changed since it was made, as one version")
      .argument("<collection>")
      .argument("<copy>")
      .addOption(
        new Option(
          "--on-conflict <whose>",
          "what holds for records that both have changed; without, nothing is changed and they are listed",
        ).choices(["ours", "theirs"]),
      ),
  ).action(merge);
  act("diff", "what differs between two versions, by id", "<from>", "<to>").action(
    async (name: string, from: string, to: string, options: ConnectionOptions) => {
      const diff = (await handle(name, options)).diff(from, to);
      const { added, changed, removed } = await diff.counts();
      if (!options.json) printLine(`${added} added, ${changed} changed, ${removed} removed`);
      for await (const change of diff)
        printLine(options.json ? JSON.stringify(change) : `${change.op.padEnd(8)}${change.id}`);
    },
  );
  act("history", "every state of a record that is kept", "<id>").action(
    async (name: string, id: string, options: ConnectionOptions) => {
      const history = await (await handle(name, options)).history(id);
      if (options.json) return printJson(history);
      printTable(
        history.states,
        [
          { title: "VERSION", value: ({ version }) => version, right: true },
          { title: "UNTIL", value: ({ until }) => until ?? "now", right: true },
          { title: "METADATA", value: ({ vector }) => JSON.stringify(vector.metadata) },
        ],
        "There is none.",
      );
    },
  );
  return command;
}

async function handle(name: string, options: ConnectionOptions): Promise<Collection> {
  return (await connect(options)).collection(name);
}

async function merge(
  name: string,
  copy: string,
  { onConflict, ...options }: ConnectionOptions & { onConflict?: "ours" | "theirs" },
): Promise<void> {
  const merged = await (await handle(name, options)).merge(copy, { onConflict });
  if (options.json) return printJson(merged);
  const { added, changed, removed, conflicts, version } = merged;
  printLine(
    `Version ${version.version_number}: ${added} added, ${changed} changed, ${removed} removed, ${countOf(conflicts.length, "conflict")}.`,
  );
}

function readHistory(text: string): { versions: number } | { seconds: number } | "all" | null {
  if (text === "all") return "all";
  if (text === "none") return null;
  const [, number, seconds] = /^(\d{1,10})(s?)$/.exec(text) ?? [];
  if (number === undefined)
    throw new UsageError(`The history is ${JSON.stringify(text)}; expected 100, 3600s, all or none.`);
  return seconds === "s" ? { seconds: Number(number) } : { versions: Number(number) };
}

async function list(
  name: string,
  { limit, before, ...options }: ConnectionOptions & { limit: number; before?: number },
): Promise<void> {
  const listed = await (await handle(name, options)).versions({ limit, before });
  if (options.json) return printJson(listed);
  const tagsOf = (version: number) => listed.tags.filter((tag) => tag.version === version);
  printTable(
    listed.versions,
    [
      { title: "VERSION", value: (version) => version.version_number, right: true },
      { title: "CREATED", value: (version) => new Date(version.timestamp * 1000).toISOString() },
      { title: "RECORDS", value: (version) => formatCount(version.vector_count), right: true },
      {
        title: "",
        value: ({ hash, version_number: number }) => {
          const state = number < listed.oldest_readable && tagsOf(number).length === 0 ? ["gone"] : [];
          if (hash === listed.current_hash) state.push("current");
          return [...state, ...tagsOf(number).map((tag) => tag.name)].join(", ");
        },
      },
      { title: "HASH", value: (version) => version.hash },
    ],
    "There are no such versions.",
  );
}
