// quiver cluster

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { CheckedCollection } from "@quiverdb/cluster/state-check";
import type { ClusterStatus } from "@quiverdb/cluster/status";
import { type Command, Option } from "commander";
import { type ConnectionOptions, keyOf, parsed, QuiverCommand, withConnection } from "../command.ts";
import { loadEngine } from "../engine.ts";
import { CommandError, exitCodes } from "../exit-codes.ts";
import { printJson, printLine, printTable } from "../output.ts";
import { readInteger } from "../values.ts";

type CheckOptions = ConnectionOptions & { adopt?: string };
type DevOptions = { dir?: string; nodes: number; killTest?: boolean; seconds: number };

/** `quiver cluster`: several nodes. */
export function clusterCommand(finish: (code: number) => void): Command {
  const command = new QuiverCommand("cluster");
  withConnection(
    command.command("status", { isDefault: true }).description("nodes, logs and collections (default)"),
  ).action(status);
  withConnection(
    command
      .command("check")
      .description("compare the state of all replicas; exit code 1 if one is different")
      .option(
        "--adopt <node>",
        "make all replicas of collections that have diverged, or are different, copies of this node's",
      ),
  ).action(async (options: CheckOptions) => finish(await check(options)));
  withConnection(
    command
      .command("remove")
      .description("remove a node for good: others copy what it holds, and it serves until they do")
      .argument("<node>"),
  ).action(async (node: string, options: ConnectionOptions) => {
    const path = `/cluster/remove/${encodeURIComponent(node)}`;
    const removed = await ask<{ removed: string }>(options, "POST", path);
    if (options.json) return printJson(removed);
    printLine(
      `${node} is removed. It can be stopped when 'quiver cluster status' names it for no collection; its name is not used again.`,
    );
  });
  command
    .command("dev")
    .description("start three nats-server and three nodes on this machine, until Ctrl-C")
    .option("--dir <dir>", "directory of their data (default: a temporary one, removed at the end)")
    .addOption(
      new Option("--nodes <n>", "how many nodes")
        .argParser(parsed((text) => readInteger(text, 1, 16)))
        .default(3),
    )
    .option(
      "--kill-test",
      "kill one server and one node under load, compare all nodes, and end; exit code 1 if anything is missing or differs",
    )
    .addOption(
      new Option("--seconds <n>", "with --kill-test: how long it writes")
        .argParser(parsed((text) => readInteger(text, 4, 86_400)))
        .default(20),
    )
    .addHelpText(
      "after",
      `
nats-server is QUIVER_NATS_SERVER, or on the PATH, or what 'npm run nats' has fetched into a clone.`,
    )
    .action(async (options: DevOptions) => finish(await dev(options)));
  return command;
}

async function ask<T>(options: ConnectionOptions, method: string, path: string): Promise<T> {
  const key = keyOf(options);
  const answer = await fetch(options.url.replace(/\/+$/, "") + path, {
    method,
    headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
    signal: AbortSignal.timeout(options.timeout),
  });
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text) as T;
  const { error } = JSON.parse(text) as { error: { code: string; message: string } };
  throw new CommandError(
    error.code === "route_not_found" ? `${options.url} is not a node of a cluster` : error.message,
  );
}

async function status(options: ConnectionOptions): Promise<void> {
  const found = await ask<ClusterStatus>(options, "GET", "/cluster/status");
  if (options.json) return printJson(found);
  printLine(`cluster ${found.cluster}, asked ${found.node}`);
  if (found.diverged !== undefined) printLine(found.diverged);
  const ends = found.nodes.map(({ logs = [] }) => logs.reduce((sum, position) => sum + position, 0));
  const most = Math.max(...ends);
  printTable(
    found.nodes.map((node, i) => ({ ...node, behind: node.alive ? most - ends[i] : undefined })),
    [
      { title: "node", value: ({ node }) => node },
      { title: "url", value: ({ url }) => url },
      { title: "state", value: ({ alive }) => (alive ? "alive" : "missing") },
      { title: "holds", value: ({ holds }) => holds, right: true },
      { title: "version", value: ({ version }) => version },
      { title: "messages behind", value: ({ behind }) => behind, right: true },
      {
        title: "copying",
        value: ({ not_served: some = [] }) =>
          some
            .map(({ collection, copying }) => `${collection}${copying ? ` (${shareOf(copying)})` : ""}`)
            .join(", "),
      },
    ],
    "there are no nodes",
  );
  printLine();
  printTable(
    found.collections,
    [
      { title: "collection", value: ({ name }) => name },
      { title: "log", value: ({ log }) => log, right: true },
      { title: "replicas", value: ({ replicas }) => replicas.join(", ") },
      { title: "position here", value: ({ position }) => position, right: true },
      { title: "", value: ({ diverged }) => diverged },
    ],
    "there are no collections",
  );
  const { p50, p99 } = found.publish_ms;
  if (p50 !== null && p99 !== null)
    printLine(`\nthe log acknowledges in ${p50.toFixed(1)} ms (p50), ${p99.toFixed(1)} ms (p99)`);
}

/** How much of a copy is there; how large it is going to be is known about. */
const shareOf = ({ bytes, bytes_expected: expected }: { bytes: number; bytes_expected: number }) =>
  `${Math.min(99, Math.floor((100 * bytes) / Math.max(1, expected)))} %`;

async function check(options: CheckOptions): Promise<number> {
  if (options.adopt !== undefined) await adopt(options, options.adopt);
  const { collections } = await ask<{ collections: CheckedCollection[] }>(options, "POST", "/cluster/check");
  if (options.json) printJson(collections);
  else
    printTable(
      collections,
      [
        { title: "collection", value: ({ name }) => name },
        { title: "replicas are", value: ({ outcome }) => outcome },
        { title: "at position", value: ({ replicas }) => replicas[0]?.position, right: true },
        {
          title: "",
          value: ({ replicas, outcome, failed = [] }) =>
            outcome === "equal"
              ? ""
              : [...replicas.map(({ node, sha256 }) => `${node} ${sha256.slice(0, 8)}`), ...failed].join(
                  ", ",
                ),
        },
      ],
      "there are no collections",
    );
  return collections.every(({ outcome }) => outcome === "equal") ? exitCodes.ok : exitCodes.failed;
}

/** Asks the node whose collections all others shall take. */
async function adopt(options: CheckOptions, name: string): Promise<void> {
  const found = await ask<ClusterStatus>(options, "GET", "/cluster/status");
  const node = found.nodes.find((each) => each.node === name);
  if (node === undefined || !node.alive)
    throw new CommandError(
      `there is no living node '${name}'; there are ${found.nodes.map((each) => each.node).join(", ")}`,
    );
  const { collections } = await ask<{ collections: CheckedCollection[] }>(options, "POST", "/cluster/check");
  const different = new Set(
    collections.filter(({ outcome }) => outcome === "different").map((each) => each.name),
  );
  const collected = found.collections.filter(
    ({ name: store, diverged }) => diverged !== undefined || different.has(store),
  );
  // Of several shards, the collection is refused, once.
  for (const collection of new Set(collected.map((each) => each.name.split("#", 1)[0]))) {
    try {
      await ask({ ...options, url: node.url }, "POST", `/cluster/adopt/${encodeURIComponent(collection)}`);
      printLine(`all nodes take the collection '${collection}' of ${name}`);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      printLine(error.message);
    }
  }
}

async function dev({ dir, nodes, killTest: isKillTest, seconds }: DevOptions): Promise<number> {
  const { DevCluster, findNatsServer, killTest } = await loadEngine(
    "cluster dev",
    () => import("@quiverdb/cluster/dev/dev"),
  );
  const found = findNatsServer(resolve(".cache"));
  if ("missing" in found) throw new CommandError(found.missing);
  const directory = dir ?? mkdtempSync(join(tmpdir(), "quiver-cluster-"));
  printLine(`starting three nats-server ${found.version} and ${nodes} nodes in ${directory}`);
  const cluster = await DevCluster.start({
    nats: found.path,
    directory,
    nodes,
    quiver: [process.execPath, ...process.execArgv, process.argv[1]],
  });
  try {
    for (const { name, url } of cluster.nodes) printLine(`  ${name}  ${url}`);
    if (isKillTest) {
      const wrong = await killTest(cluster, { seconds, clients: 8, print: printLine });
      printLine(wrong.length === 0 ? "nothing is missing, nothing differs" : wrong.join("\n"));
      return wrong.length === 0 ? exitCodes.ok : exitCodes.failed;
    }
    printLine("Ctrl-C stops them.");
    await new Promise((end) => {
      process.once("SIGINT", end);
      process.once("SIGTERM", end);
    });
    return exitCodes.ok;
  } finally {
    printLine("stopping");
    await cluster.stop();
    if (dir === undefined) rmSync(directory, { recursive: true, force: true });
  }
}
