// quiver get, quiver transactions

import type { Command } from "commander";
import { type ConnectionOptions, connect, QuiverCommand, withConnection } from "../command.ts";
import { printJson, printLine, printTable } from "../output.ts";
import { asItWas, type PastOptions, withPast } from "../past.ts";
import { formatCount } from "../values.ts";

export function getCommand(): Command {
  return withConnection(withPast(new QuiverCommand("get").argument("<collection>").argument("<id>"))).action(
    async (name: string, id: string, options: ConnectionOptions & PastOptions) => {
      printLine(await asItWas((await connect(options)).collection(name), options).getJson(id));
    },
  );
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
