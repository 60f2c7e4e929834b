// How are several nats-server started on one machine?
//
// One cluster on 127.0.0.1, each server with a directory and ports of its own. A server keeps both when it is started again.

import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "@nats-io/transport-node";

export type ServersOptions = {
  /** The program. */
  readonly path: string;
  /** Directory of all of them; made if it is missing. */
  readonly directory: string;
  /** Default 3. */
  readonly count?: number;
  /** Default: `always`. */
  readonly sync?: string;
  /** Text added to each configuration. */
  readonly extra?: string;
  /** The port by which one server reaches another, by their names. Default: the other's own. */
  readonly portOf?: PortOf;
};

/** @param port of the other @returns a port that leads there */
export type PortOf = (from: string, to: string, port: number) => number | Promise<number>;

type Ports = { readonly client: number; readonly route: number; readonly monitor: number };

export class NatsServer {
  readonly port: number;
  readonly monitor: string;
  /** A file. */
  readonly log: string;
  /** Its directory. */
  readonly store: string;
  readonly #program: string;
  readonly #configuration: string;
  #name: string;
  #process: ChildProcess | undefined;

  constructor(name: string, program: string, directory: string, { client, monitor }: Ports) {
    this.#name = name;
    this.port = client;
    this.monitor = `http://127.0.0.1:${monitor}`;
    this.#program = program;
    this.#configuration = join(directory, "nats.conf");
    this.log = join(directory, "nats.log");
    this.store = join(directory, "store");
  }

  get name(): string {
    return this.#name;
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  start(): void {
    this.#process = spawn(...endingWithParent(this.#program, ["-c", this.#configuration]), {
      stdio: "ignore",
    });
  }

  /** @param signal SIGTERM lets it finish, SIGKILL does not */
  async stop(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    await endProcess(this.#process, signal);
    this.#process = undefined;
  }

  pause(): void {
    this.#process?.kill("SIGSTOP");
  }

  resume(): void {
    this.#process?.kill("SIGCONT");
  }

  /** Loses everything; stop it before. */
  wipe(): void {
    rmSync(this.store, { recursive: true, force: true });
  }

  /** From its next start on, another server has its addresses, and nothing of its data; stop it before. */
  replace(name: string): void {
    this.wipe();
    const configuration = readFileSync(this.#configuration, "utf8");
    writeFileSync(
      this.#configuration,
      configuration.replace(`server_name: ${this.#name}`, `server_name: ${name}`),
    );
    this.#name = name;
  }

  /** Whether it serves, and JetStream is ready. @throws Error if it has ended by itself */
  async isReady(): Promise<boolean> {
    if (this.#process !== undefined && this.#process.exitCode !== null)
      throw new Error(`${this.name} has ended with code ${this.#process.exitCode}; its log is ${this.log}`);
    try {
      const answer = await fetch(`${this.monitor}/healthz?js-enabled-only=false`, {
        signal: AbortSignal.timeout(500),
      });
      return answer.ok;
    } catch {
      return false;
    }
  }
}

export class NatsServers {
  readonly servers: readonly NatsServer[];

  private constructor(servers: readonly NatsServer[]) {
    this.servers = servers;
  }

  /** Resolves when all of them serve, and have a leader. */
  static async start(options: ServersOptions): Promise<NatsServers> {
    const {
      path,
      directory,
      count = 3,
      sync = "always",
      extra = "",
      portOf = (_, __, port) => port,
    } = options;
    const ports = await portsFor(count);
    const names = ports.map((_, i) => `nats-${i + 1}`);
    const servers: NatsServer[] = [];
    for (const [i, name] of names.entries()) {
      const routes: string[] = [];
      for (const [j, { route }] of ports.entries())
        routes.push(`nats://127.0.0.1:${i === j ? route : await portOf(name, names[j], route)}`);
      const own = join(directory, name);
      mkdirSync(own, { recursive: true });
      // What servers tell of themselves would lead past the given ports.
      const advertised =
        options.portOf === undefined ? undefined : routes[i].replace("nats://127.0.0.1", "localhost.invalid");
      writeFileSync(
        join(own, "nats.conf"),
        configuration(name, own, ports[i], routes, sync, extra, advertised),
      );
      servers.push(new NatsServer(name, path, own, ports[i]));
    }
    const all = new NatsServers(servers);
    await all.begin();
    await all.ready();
    return all;
  }

  get urls(): string[] {
    return this.servers.map(({ url }) => url);
  }

  /**
   * Starts servers, one after the other: where all begin at once, each connects to each other at the same moment, both close one of the two
   * connections as a duplicate, and nats-server 2.10.27 then sometimes finds no leader for minutes (2 of 120 starts here; of 80 like this
   * none). On a busy machine one of twenty starts also leaves a server that the leader takes for absent, which `ready` starts again.
   */
  async begin(servers: readonly NatsServer[] = this.servers): Promise<void> {
    for (const server of servers) {
      server.start();
      await delay(apartMs);
    }
  }

  /**
   * Resolves when all serve, and their leader takes none for absent.
   * @throws Error if that takes more than a minute
   */
  async ready(): Promise<void> {
    const begun = performance.now();
    let lookedMs = begun;
    for (;;) {
      const ready = await Promise.all(this.servers.map((server) => server.isReady()));
      const isWaiting = ready.some((each) => !each);
      const absent = isWaiting ? this.servers.filter((_, i) => !ready[i]) : await this.#absent();
      if (absent.length === 0) return;
      const now = performance.now();
      const logs = absent.map(({ log }) => log).join(", ");
      if (now - begun > readyMs) throw new Error(`nats-server is not ready after a minute: ${logs}`);
      // What one of two connections said is then lost, and both go on as if it were known: only a new connection helps.
      if (now - lookedMs > absentMs) {
        await absent[0].stop("SIGKILL");
        absent[0].start();
        lookedMs = performance.now();
      }
      await delay(100);
    }
  }

  /** Servers that have no leader, or that it takes for absent. */
  async #absent(): Promise<readonly NatsServer[]> {
    if (this.servers.length === 1) return [];
    const looks = await Promise.all(this.servers.map(({ monitor }) => metaOf(monitor)));
    const leaderless = this.servers.filter((_, i) => !looks[i]?.leader);
    if (leaderless.length > 0) return leaderless;
    const leader = looks[0]?.leader;
    if (looks.some((meta) => meta?.leader !== leader)) return this.servers;
    const { replicas = [] } = looks[this.servers.findIndex(({ name }) => name === leader)] ?? {};
    return this.servers.filter(
      ({ name }) =>
        name !== leader &&
        !replicas.some((each) => each.name === name && each.current && each.offline !== true),
    );
  }

  /**
   * Removes a stopped server for good: others keep what it had, and one that is added gets it from them.
   * @throws Error if the others do not do that within a minute
   */
  async remove(name: string): Promise<void> {
    const until = performance.now() + readyMs;
    for (;;) {
      const connection = await connect({ servers: this.urls, ...systemUser, waitOnFirstConnect: true });
      try {
        const message = await connection.request("$JS.API.SERVER.REMOVE", JSON.stringify({ peer: name }), {
          timeout: 5_000,
        });
        const { success, error } = message.json<{ success?: boolean; error?: { description: string } }>();
        if (success) return;
        throw new Error(`${name} is not removed: ${error?.description}`);
      } catch (error) {
        // There is no leader yet.
        if (performance.now() > until) throw error;
        await delay(500);
      } finally {
        await connection.close();
      }
    }
  }

  /** Ends them at once, without waiting. */
  kill(): void {
    for (const { pid } of this.servers) killProcess(pid);
  }

  async stop(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop("SIGKILL")));
  }
}

/** Who may remove servers. */
const systemUser = { user: "system", pass: "system" };

const apartMs = 400;
const readyMs = 60_000;
/** A server that is absent for so long is started again. */
const absentMs = 8_000;

type Meta = {
  readonly leader?: string;
  readonly replicas?: readonly {
    readonly name: string;
    readonly current: boolean;
    readonly offline?: boolean;
  }[];
};

/** What a server knows of the group of all servers. */
async function metaOf(monitor: string): Promise<Meta | undefined> {
  try {
    const answer = await fetch(`${monitor}/jsz`, { signal: AbortSignal.timeout(1_000) });
    return ((await answer.json()) as { meta_cluster?: Meta }).meta_cluster;
  } catch {
    return undefined;
  }
}

function configuration(
  name: string,
  directory: string,
  { client, route, monitor }: Ports,
  routes: readonly string[],
  sync: string,
  extra: string,
  advertised: string | undefined,
): string {
  return `server_name: ${name}
listen: 127.0.0.1:${client}
http: 127.0.0.1:${monitor}
max_payload: 8MB
log_file: "${join(directory, "nats.log")}"
jetstream: { store_dir: "${join(directory, "store")}", sync_interval: ${sync}, max_file_store: 50GB }
${routes.length === 1 ? "" : `cluster: { name: quiver, listen: 127.0.0.1:${route}, routes: [${routes.join(", ")}], pool_size: 1${advertised === undefined ? "" : `, cluster_advertise: "${advertised}", no_advertise: true`} }`}
accounts: { $SYS: { users: [{ user: ${systemUser.user}, password: ${systemUser.pass} }] } }
${extra}
`;
}

async function portsFor(count: number): Promise<Ports[]> {
  const free = await freePorts(3 * count);
  return Array.from({ length: count }, (_, i) => ({
    client: free[3 * i],
    route: free[3 * i + 1],
    monitor: free[3 * i + 2],
  }));
}

/** Below these are ports that the system does not give to connections: those could take the port of a server that is down for a moment. */
const ephemeralPort = 32_768;
const leastPort = 10_240;

/** Ports of 127.0.0.1 that nothing uses now. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = randomInt(leastPort, ephemeralPort);
    if (await isFree(port)) ports.add(port);
  }
  return [...ports];
}

function isFree(port: number): Promise<boolean> {
  const probe = createServer();
  return new Promise((resolve) => {
    probe.once("error", () => resolve(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
  });
}

/** Ends a process, also a paused one; resolves when it has ended. */
export async function endProcess(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGCONT");
  child.kill(signal);
  await ended;
}

/** Kills a process that may have ended already. */
export function killProcess(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** The command of a process that the kernel kills when this process ends, however it ends; Linux has that, by a program of util-linux. */
export function endingWithParent(program: string, args: readonly string[]): [string, string[]] {
  const wrapper = "/usr/bin/setpriv";
  if (process.platform !== "linux" || !existsSync(wrapper)) return [program, [...args]];
  return [wrapper, ["--pdeathsig", "KILL", program, ...args]];
}
