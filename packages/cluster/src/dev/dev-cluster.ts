// How does a cluster run on one machine, for trying it and for tests?
//
// Three nats-server and some nodes, each a process of its own, which end with this one. Ports and directories stay when one is started again.

import { type ChildProcess, spawn } from "node:child_process";
import { fstatSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import {
  endingWithParent,
  endProcess,
  freePorts,
  killProcess,
  NatsServers,
  type ServersOptions,
} from "./servers.ts";

export type DevOptions = {
  /** The program nats-server. */
  readonly nats: string;
  readonly directory: string;
  /** Command of `quiver`: a program and its first arguments. */
  readonly quiver: readonly [string, ...string[]];
  /** Default 3. */
  readonly nodes?: number;
  readonly servers?: Pick<ServersOptions, "count" | "sync" | "extra" | "portOf">;
  /** Further arguments of `serve`. */
  readonly args?: readonly string[];
  /** Of the nodes. With QUIVER_ADMIN_KEY they ask for that key; otherwise they need none. */
  readonly env?: Readonly<Record<string, string>>;
};

/** How long a node may take to be ready. */
const readyMs = 60_000;

export class DevNode {
  readonly name: string;
  readonly url: string;
  readonly directory: string;
  readonly #command: readonly [string, ...string[]];
  readonly #args: readonly string[];
  readonly #log: string;
  readonly #env: Readonly<Record<string, string>>;
  #process: ChildProcess | undefined;
  /** Bytes of the log that earlier runs have written. */
  #logFrom = 0;

  constructor(
    name: string,
    port: number,
    { directory, quiver, args = [], env = {} }: DevOptions,
    servers: readonly string[],
  ) {
    this.name = name;
    this.url = `http://127.0.0.1:${port}`;
    this.directory = join(directory, name);
    this.#log = join(directory, `${name}.log`);
    this.#command = quiver;
    this.#env = env;
    this.#args = [
      ...["serve", "--port", String(port), "--data-dir", this.directory],
      ...(env.QUIVER_ADMIN_KEY === undefined ? ["--no-auth"] : []),
      ...["--cluster", servers.join(","), "--node", name, "--advertise", this.url],
      ...args,
    ];
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** @param flags of the program that runs `quiver` @param env of this run only */
  start(flags: readonly string[] = [], env: Readonly<Record<string, string>> = {}): void {
    const [program, ...first] = [this.#command[0], ...flags, ...this.#command.slice(1)];
    const log = openSync(this.#log, "a");
    this.#logFrom = fstatSync(log).size;
    this.#process = spawn(...endingWithParent(program, [...first, ...this.#args]), {
      stdio: ["ignore", log, log],
      env: { ...process.env, ...this.#env, ...env },
    });
  }

  /** Whether it has ended by itself, or was stopped. */
  get hasEnded(): boolean {
    const { exitCode, signalCode } = this.#process ?? {};
    return typeof exitCode === "number" || typeof signalCode === "string";
  }

  /** Whether it answers requests. */
  async isReady(): Promise<boolean> {
    const answer = await fetch(`${this.url}/health/ready`, { signal: AbortSignal.timeout(1_000) }).catch(
      () => null,
    );
    return answer?.ok === true;
  }

  /** @throws Error if it is not ready in time, or has ended */
  async ready(): Promise<void> {
    const until = performance.now() + readyMs;
    while (!(await this.isReady())) {
      if (this.hasEnded)
        throw new Error(`the node ${this.name} has ended; the end of ${this.#log}:\n${this.#logEnd()}`);
      if (performance.now() > until)
        throw new Error(`the node ${this.name} is not ready; its log is ${this.#log}`);
      await delay(50);
    }
  }

  /** Whether a text is in the log of the last run. */
  hasSaid(text: string): boolean {
    return readFileSync(this.#log).includes(text, this.#logFrom);
  }

  #logEnd(): string {
    return readFileSync(this.#log, "utf8").trimEnd().split("\n").slice(-5).join("\n");
  }

  async stop(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    await endProcess(this.#process, signal);
  }

  pause(): void {
    this.#process?.kill("SIGSTOP");
  }

  resume(): void {
    this.#process?.kill("SIGCONT");
  }
}

export class DevCluster {
  readonly servers: NatsServers;
  readonly nodes: readonly DevNode[];

  private constructor(servers: NatsServers, nodes: readonly DevNode[]) {
    this.servers = servers;
    this.nodes = nodes;
  }

  /** Resolves when all nodes answer. @throws Error if something does not start; then everything is stopped */
  static async start(options: DevOptions): Promise<DevCluster> {
    mkdirSync(options.directory, { recursive: true });
    const servers = await NatsServers.start({
      path: options.nats,
      directory: options.directory,
      ...options.servers,
    });
    const ports = await freePorts(options.nodes ?? 3);
    const withMonitors: DevOptions = {
      ...options,
      args: [
        ...(options.args ?? []),
        "--cluster-monitor",
        servers.servers.map(({ monitor }) => monitor).join(","),
      ],
    };
    const { portOf } = options.servers ?? {};
    const nodes: DevNode[] = [];
    for (const [i, port] of ports.entries()) {
      const name = `n${i + 1}`;
      const urls = servers.servers.map(async ({ name: server, port: own }) => {
        return `nats://127.0.0.1:${portOf === undefined ? own : await portOf(name, server, own)}`;
      });
      nodes.push(new DevNode(name, port, withMonitors, await Promise.all(urls)));
    }
    const cluster = new DevCluster(servers, nodes);
    // Whatever ends this process, unless it is killed at once.
    process.once("exit", () => cluster.kill());
    try {
      for (const node of nodes) node.start();
      await Promise.all(nodes.map((node) => node.ready()));
      return cluster;
    } catch (error) {
      cluster.kill();
      throw error;
    }
  }

  get urls(): string[] {
    return this.nodes.map(({ url }) => url);
  }

  /** Ends all processes at once. */
  kill(): void {
    for (const { pid } of this.nodes) killProcess(pid);
    this.servers.kill();
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
    await this.servers.stop();
  }
}
