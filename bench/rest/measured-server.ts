// How does the benchmark start a server in its own process, drive it, and read its processor time?

import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { atExit } from "../shared/exit.ts";
import { base64, definitionOf, recordsOf } from "./data.ts";

export const adminKey = "bench-admin-key";

/** Connections that send at the same time. */
const connections = 8;

export type MeasuredServer = {
  readonly url: string;
  readonly pid: number;
  /** Processor time of the whole process until now, in milliseconds. */
  cpuMs(): Promise<number>;
  /** Stops it, and waits until it has. Default signal SIGTERM. */
  end(signal?: NodeJS.Signals): Promise<void>;
};

/** Sends one request and reads the answer to its end. @throws if the status is not in the two hundreds */
export type Send = (path: string, body: Buffer, contentType?: string) => Promise<Buffer>;

/** The server has more work than it can do. */
export class Refused extends Error {}

/** A client that keeps its connections. */
export function clientOf(
  url: string,
  agent = new Agent({ keepAlive: true, maxSockets: connections }),
): { send: Send; remove(path: string): Promise<Buffer>; end(): void } {
  const call = (method: string, path: string, body: Buffer, contentType: string): Promise<Buffer> =>
    new Promise((answered, failed) => {
      const sent = request(
        `${url}${path}`,
        {
          agent,
          method,
          headers: {
            authorization: `Bearer ${adminKey}`,
            "content-type": contentType,
            "content-length": body.length,
          },
        },
        (response) => {
          const chunks: Buffer[] = [];
          response.on("data", (chunk: Buffer) => chunks.push(chunk));
          response.on("error", failed);
          response.on("end", () => {
            const whole = Buffer.concat(chunks);
            if ((response.statusCode ?? 500) < 300) answered(whole);
            else if (response.statusCode === 503 && whole.includes('"overloaded"'))
              failed(new Refused(`${path}: ${whole}`));
            else failed(new Error(`${path}: ${response.statusCode} ${whole}`));
          });
        },
      );
      sent.on("error", failed);
      sent.end(body);
    });
  const json = "application/json";
  return {
    send: (path, body, contentType = json) => call("POST", path, body, contentType),
    remove: (path) => call("DELETE", path, Buffer.alloc(0), json),
    end: () => agent.destroy(),
  };
}

const recordsPerUpsert = 500;

/** Makes the collection of this many records. */
export async function fill(send: Send, size: number): Promise<void> {
  const definition = definitionOf(size);
  await send("/vectordb/collections", Buffer.from(JSON.stringify(definition)));
  const records = recordsOf(size).map(({ id, vector }) => ({ id, dense_values: base64(vector) }));
  for (let from = 0; from < size; from += recordsPerUpsert) {
    const body = JSON.stringify({ vectors: records.slice(from, from + recordsPerUpsert) });
    await send(`/vectordb/collections/${definition.name}/streaming/upsert`, Buffer.from(body));
  }
}

/** Sends `count` requests with these bodies in turn, over all connections at once. */
export async function drive(
  send: Send,
  path: string,
  bodies: readonly Buffer[],
  count: number,
): Promise<void> {
  let next = 0;
  const connection = async () => {
    while (next < count) await send(path, bodies[next++ % bodies.length]);
  };
  await Promise.all(Array.from({ length: connections }, connection));
}

/** The bare server. */
export async function startBare(): Promise<MeasuredServer> {
  const { url, pid, end } = await startProcess([resolve(import.meta.dirname, "bare-server.ts")]);
  return { url, pid, end, cpuMs: async () => Number(await (await fetch(`${url}/cpu`)).text()) };
}

/** Quiver, with authentication and its log at the default level. @param nodeFlags for profiles @param flags of the server */
export async function startQuiver(
  dataDir: string,
  nodeFlags: readonly string[] = [],
  flags: readonly string[] = [],
): Promise<MeasuredServer> {
  const main = resolve(import.meta.dirname, "../../packages/cli/dist/main.js");
  const { url, pid, end } = await startProcess([
    ...nodeFlags,
    main,
    "serve",
    "--port",
    "0",
    "--data-dir",
    dataDir,
    ...flags,
  ]);
  const headers = { authorization: `Bearer ${adminKey}` };
  return {
    url,
    pid,
    end,
    async cpuMs() {
      const text = await (await fetch(`${url}/metrics`, { headers })).text();
      const seconds = /^process_cpu_seconds_total (\S+)/m.exec(text)?.[1];
      if (seconds === undefined) throw new Error("the metrics have no processor time");
      return Number(seconds) * 1000;
    },
  };
}

/** Starts a program of Node.js, and waits until it says where it listens. */
function startProcess(args: readonly string[]): Promise<Pick<MeasuredServer, "url" | "pid" | "end">> {
  const child = spawn(process.execPath, args, {
    // As `npm start` does (tools/launch.mjs).
    env: { MALLOC_ARENA_MAX: "2", ...process.env, QUIVER_ADMIN_KEY: adminKey },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  child.once(
    "exit",
    atExit(() => child.kill("SIGKILL")),
  );
  const end = async (signal: NodeJS.Signals = "SIGTERM") => {
    child.kill(signal);
    await ended;
  };
  return new Promise((started, failed) => {
    // The log is read all the time, as a service manager does.
    createInterface({ input: child.stdout }).on("line", (line) => {
      const match = /listens on (http:\/\/127\.0\.0\.1:\d+)/.exec(line);
      if (match) started({ url: match[1], pid: child.pid as number, end });
    });
    const onEnd = ([code]: unknown[]) => failed(new Error(`${args.join(" ")} has ended with ${code}`));
    ended.then(onEnd, failed);
  });
}
