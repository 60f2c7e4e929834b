// quiver get, quiver versions, quiver transactions

import type { Command } from "commander";
import { type ConnectionOptions, connect, parsed, QuiverCommand, withConnection } from "../command.ts";
import { printJson, printLine, printTable } from "../output.ts";
import { formatCount, readInteger } from "../values.ts";

export function getCommand(): Command {
  return withConnection(new QuiverCommand("get").argument("<collection>").argument("<id>")).action(
    async (name: string, id: string, options: ConnectionOptions) => {
      printLine(await (await connect(options)).collection(name).getJson(id));
    },
  );
}

export function versionsCommand(): Command {
  return withConnection(
    new QuiverCommand("versions")
      .argument("<collection>")
      .option(
        "--limit <n>",
        "maximum number of versions to list",
        parsed((text) => readInteger(text, 1, 1_000)),
        20,
      )
      .option("--before <n>", "only versions with a smaller number", parsed(readInteger)),
  ).action(async (name: string, options: ConnectionOptions & { limit: number; before?: number }) => {
    const { limit, before } = options;
    const list = await (await connect(options)).collection(name).versions({ limit, before });
    if (options.json) return printJson(list);
    printTable(
      list.versions,
      [
        { title: "VERSION", value: (version) => version.version_number, right: true },
        { title: "CREATED", value: (version) => new Date(version.timestamp * 1000).toISOString() },
        { title: "RECORDS", value: (version) => formatCount(version.vector_count), right: true },
        { title: "", value: (version) => (version.hash === list.current_hash ? "current" : "") },
        { title: "HASH", value: (version) => version.hash },
      ],
      "There are no such versions.",
    );
  });
}

export function transactionsCommand(): Command {
  const command = new QuiverCommand("transactions");
  withConnection(
    command
      .command("list", { isDefault: true })
      .description("open and recent transactions, newest first")
      .argument("<collection>"),
  ).action(async (name: string, options: ConnectionOptions) => {
    const transactions = await (await connect(options)).collection(name).transactions();
    if (options.json) return printJson(transactions);
    printTable(
      transactions.map((row) => {
        const [[state, { stats }]] = Object.entries(row.status);
        return { ...row, state, stats };
      }),
      [
        { title: "TRANSACTION", value: (row) => row.transaction_id },
        { title: "CREATED", value: (row) => row.created_at },
        { title: "STATE", value: ({ state }) => (state === "NotStarted" ? "open" : state) },
        { title: "UPSERTED", value: ({ stats }) => formatCount(stats.records_upserted), right: true },
        { title: "DELETED", value: ({ stats }) => formatCount(stats.records_deleted), right: true },
        { title: "INDEXED", value: ({ stats }) => `${stats.percentage_complete.toFixed(1)}%`, right: true },
      ],
      `${JSON.stringify(name)} has no transaction.`,
    );
  });
  for (const act of ["commit", "abort"] as const) {
    withConnection(
      command
        .command(act)
        .description(act === "commit" ? "apply a transaction's changes" : "discard a transaction's changes")
        .argument("<collection>")
        .argument("<id>"),
    ).action(async (name: string, id: string, options: ConnectionOptions) => {
      await (await connect(options)).collection(name).resumeTransaction(id)[act]();
      if (options.json) return printJson({ transaction_id: id, done: act });
      printLine(act === "commit" ? `Committed ${id}.` : `Aborted ${id}.`);
    });
  }
  return command;
}
