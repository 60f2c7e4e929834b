// How does a campaign run a real server in its own process: start, stop, kill, restart and inspect it?

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type ClientOptions, createClient, type QuiverClient } from "@quiverdb/client";
import type { Holds, Probe } from "./child-probe.ts";

/** The program of the server and of all other commands. */
export const main = resolve(import.meta.dirname, "../../packages/cli/dist/main.js");
/** The same before it is compiled, when another module shall be the one that its own modules import. */
const sources = resolve(import.meta.dirname, "../../packages/cli/src/main.ts");
const armFailpoint = resolve(import.meta.dirname, "crash/arm-failpoint.ts");
const childProbe = resolve(import.meta.dirname, "child-probe.ts");

/** The admin key of every server that does not generate its own. */
export const adminKey = "campaign-admin-key";

/** Where Node.js keeps compiled modules between starts: most of a start is compiling. */
const compileCache = join(tmpdir(), "quiver-campaigns-compile-cache");

/** For campaigns that test responses; others test rejections under load and after wrong keys. */
export const patience: readonly string[] = [
  ...["--log-level", "error", "--auth-failures-max", "1000000000"],
  ...["--queue-wait", "2m", "--request-deadline", "5m", "--request-deadline-max", "1h"],
];

/** Milliseconds that a start may take; recovery after a kill is part of it. */
const startMsMax = 120_000;
const requestMsMax = 60_000;
const outputCharactersMax = 1 << 20;

export type ServerOptions = {
  /** Further flags of `quiver serve`. */
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Whether the server generates its admin key. */
  readonly makesKey?: boolean;
  /** `NAME@N`: where it kills itself (crash/arm-failpoint). */
  readonly failpoint?: string;
  /** Of Node.js. */
  readonly nodeFlags?: readonly string[];
  /** Whether it can be asked for its memory and its event loop (child-probe). */
  readonly isProbed?: boolean;
};

export type Ending = { readonly code: number | null; readonly signal: NodeJS.Signals | null };

/** A server ended before it listened. The message has its output. */
export class NotStarted extends Error {
  override readonly name = "NotStarted";
  readonly signal: NodeJS.Signals | null;

  constructor(output: string, signal: NodeJS.Signals | null) {
    super(`the server did not start:\n${output}`);
    this.signal = signal;
  }
}

/** `quiver serve` on a directory, on a free port of the loopback address unless a flag names another. */
export class ServerProcess {
  /** The address when the server listens; null when it ended before. */
  readonly listening: Promise<string | null>;
  /** How it ended; resolves when it has. */
  readonly ended: Promise<Ending>;
  readonly #child: ChildProcess;
  readonly #keyFile: string | null;
  #text = "";
  #url = "";
  #adminKey = adminKey;

  /** Starts it; whether it listens is seen later. */
  constructor(dataDir: string, options: ServerOptions = {}) {
    const { flags = [], env = {}, makesKey = false, failpoint, nodeFlags = [], isProbed = false } = options;
    const { QUIVER_ADMIN_KEY: _, ...inherited } = process.env;
    this.#keyFile = makesKey ? join(dataDir, "admin-key") : null;
    const modules = [
      ...nodeFlags,
      ...(isProbed ? ["--expose-gc", "--import", childProbe] : []),
      ...(failpoint === undefined ? [] : ["--import", armFailpoint]),
    ];
    const program = failpoint === undefined ? main : sources;
    const args = ["serve", "--port", "0", "--data-dir", dataDir, "--log-level", "warn", ...flags];
    this.#child = spawn(process.execPath, [...modules, program, ...args], {
      env: {
        ...inherited,
        ...(program === sources && { NODE_COMPILE_CACHE: compileCache }),
        ...(!makesKey && { QUIVER_ADMIN_KEY: adminKey }),
        ...(failpoint !== undefined && { QUIVER_FAILPOINT: failpoint }),
        ...env,
      },
      stdio: ["ignore", "pipe", "pipe", ...(isProbed ? (["ipc"] as const) : [])],
    });
    this.ended = new Promise((done) => this.#child.once("close", (code, signal) => done({ code, signal })));
    this.listening = this.#listen();
  }

  #listen(): Promise<string | null> {
    return new Promise((done) => {
      for (const stream of [this.#child.stdout, this.#child.stderr])
        stream?.setEncoding("utf8").on("data", (more: string) => {
          this.#text += more;
          if (this.#text.length > 2 * outputCharactersMax)
            this.#text = this.#text.slice(-outputCharactersMax);
          if (this.#url !== "") return;
          this.#url = /listens on (http:\S+)\s/.exec(this.#text)?.[1] ?? "";
          if (this.#url === "") return;
          // The key file exists before the server listens; that of a damaged directory may be gone.
          if (this.#keyFile !== null)
            this.#adminKey = existsSync(this.#keyFile) ? readFileSync(this.#keyFile, "utf8").trim() : "";
          done(this.#url);
        });
      void this.ended.then(() => done(null));
    });
  }

  /** The address, once it listens. */
  get url(): string {
    return this.#url;
  }

  get port(): number {
    return Number(new URL(this.#url).port);
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  get adminKey(): string {
    return this.#adminKey;
  }

  /** Its standard output and standard error together; of a very long output only the end. */
  output(): string {
    return this.#text;
  }

  hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** How it ended, in words; undefined while it runs. */
  ending(): string | undefined {
    const { exitCode, signalCode } = this.#child;
    return signalCode ?? (exitCode === null ? undefined : `exit code ${exitCode}`);
  }

  /** A client with the admin key, when the server listens. @throws NotStarted */
  async client(options: Omit<ClientOptions, "url" | "apiKey"> = {}): Promise<QuiverClient> {
    const url = await this.listening;
    if (url === null) throw new NotStarted(this.#text, (await this.ended).signal);
    return createClient({ ...options, url, apiKey: this.#adminKey });
  }

  /** Resolves when all collections are recovered. @throws NotStarted, and if it takes too long */
  async ready(): Promise<this> {
    const endMs = Date.now() + startMsMax;
    await (await this.client()).waitUntilReady({ timeoutMs: startMsMax });
    // It says that it is ready although an index lags.
    while ((await this.must("GET", "/health/ready")).includes("collections_recovering")) {
      if (Date.now() > endMs) throw new Error(`the collections are not recovered after ${startMsMax} ms`);
      await sleep(100);
    }
    return this;
  }

  /** Sends a request with the admin key. @returns the text of the answer @throws unless it succeeds */
  async must(method: string, path: string, body?: unknown): Promise<string> {
    const response = await fetch(`${this.#url}${path}`, {
      method,
      headers: { authorization: `Bearer ${this.#adminKey}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(requestMsMax),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} is answered ${response.status}: ${text}`);
    return text;
  }

  /** Memory and handles after a full collection of garbage. */
  measure(): Promise<Probe> {
    return this.#ask("measure");
  }

  /** How long the event loop was blocked at a time since the last call, in processor time. */
  holds(): Promise<Holds> {
    return this.#ask("holds");
  }

  #ask<T>(what: "measure" | "holds"): Promise<T> {
    return new Promise((answered, failed) => {
      this.#child.once("message", (message) => answered(message as T));
      void this.ended.then(() => failed(new Error(`the server is gone (${this.ending()}):\n${this.#text}`)));
      this.#child.send(what);
    });
  }

  /** Resolves when the process is gone. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    this.#child.kill(signal);
    await this.ended;
  }

  /** Stops it as a service manager does. @throws unless it exits with 0 */
  async stop(): Promise<void> {
    await this.kill("SIGTERM");
    if (this.#child.exitCode !== 0)
      throw new Error(`the server did not stop well (${this.ending()}):\n${this.#text}`);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}

/** A server that has recovered its collections, can be inspected, and has high limits. */
export function startPatientServer(dataDir: string, flags: readonly string[] = []): Promise<ServerProcess> {
  return new ServerProcess(dataDir, { flags: [...patience, ...flags], isProbed: true }).ready();
}
