// How is the log written without blocking the server, and at what cost per request?
//
// Lines are written asynchronously and in order, many at a time: they are gathered for at most `gatherMs`, or until there are
// `gatherCharacters` of them; a warning or an error is written at once. (A write per line cost 45 µs of processor time in two threads, a
// tenth of a whole request. Lines of a serving thread cost the owner 3.5 µs each in pieces of 16 KiB, and 1.7 in pieces of 64.) If the reader
// is slower than the server (a pipe whose reader hangs, a slow disk), lines are buffered up to a limit. Further lines are dropped, and a line
// reports their number as soon as there is room again. Requests never wait for the log.
//
// On a terminal the lines are made readable when they are passed on; everywhere else they are JSON.
//
// The line of a request has a fixed form, so it is put together here, without pino, which makes lines of any form.

import { hostname } from "node:os";
import { limits } from "@quiverdb/protocol/limits";
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from "pino";
import type { LogLevel } from "../config.ts";

/** What the log says of a request. */
export type RequestLine = {
  readonly request_id: string;
  /** Absent where it could not be read. */
  readonly method?: string;
  /** The pattern of the route, never the path. */
  readonly route: string;
  readonly status: number;
  readonly ms?: number;
};

export type ServerLog = {
  readonly logger: Logger;
  /** Writes the line of a request, at level info. */
  request(line: RequestLine): void;
  /** Passes on lines of a serving thread. */
  add(lines: string): void;
  /** Passes on what is gathered; called when the server has stopped. */
  end(): void;
};

const gatherMs = 50;
const gatherCharacters = 64 * 1024;
const warnLevel = pino.levels.values.warn;
const infoLevel = pino.levels.values.info;

/** pino documents more of its destination than its types declare. */
type Destination = DestinationStream & { flushSync(): void };
type FileDestination = Destination & {
  on(event: "drop", act: (text: string) => void): void;
  on(event: "drain", act: () => void): void;
};

/** By this property pino knows that it must tell the level of each line. */
const metadata: unique symbol = Symbol.for("pino.metadata");

/** Gathers lines and passes them on, many at a time. */
class GatheredLines {
  readonly #destination: Destination;
  readonly #format: LineFormat;
  #text = "";
  #timer: NodeJS.Timeout | undefined;
  /** Set by pino before each line. */
  lastLevel = infoLevel;
  readonly [metadata] = true;

  constructor(destination: Destination, format: LineFormat) {
    this.#destination = destination;
    this.#format = format;
  }

  write(line: string): void {
    this.add(line);
    if (this.lastLevel >= warnLevel) this.flush();
  }

  add(line: string): void {
    this.#text += line;
    if (this.#text.length >= gatherCharacters) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), gatherMs);
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const text = this.#text;
    this.#text = "";
    if (text !== "") this.#destination.write(this.#format(text));
  }

  flushSync(): void {
    this.flush();
    this.#destination.flushSync();
  }
}

/** The logs that still gather lines; the end of the process writes them. */
const gathering = new Set<GatheredLines>();
process.once("exit", () => {
  for (const lines of gathering) lines.flushSync();
});

/** Lines of JSON as they are written. */
export type LineFormat = (lines: string) => string;

const unchanged: LineFormat = (lines) => lines;

/** Lines for people: `09:30:12 INFO: POST /vectordb/collections 201 1.2 ms`. What makes them is loaded only where somebody reads. */
export async function readableLines(): Promise<LineFormat> {
  const { prettyFactory } = await import("pino-pretty");
  const readable = prettyFactory({
    colorize: true,
    singleLine: true,
    translateTime: "SYS:HH:MM:ss",
    // These are in the message of a request, below.
    ignore: "pid,hostname,method,route,status,ms",
    messageFormat: ({ msg, method = "", route, status, ms }) =>
      route === undefined
        ? String(msg)
        : `${method} ${route} ${status}${ms === undefined ? "" : ` ${ms} ms`}`,
  });
  return (lines) =>
    lines
      .split("\n")
      .map((line) => (line === "" ? "" : readable(line)))
      .join("");
}

/** Where a log goes, if not as JSON to standard output. */
export type LogOptions = {
  readonly waitingBytesMax?: number;
  readonly fd?: number;
  readonly format?: LineFormat;
};

/** A log that goes to a file descriptor. */
export function openLog(
  level: LogLevel,
  { waitingBytesMax = limits.logWaitingBytesMax, fd = 1, format = unchanged }: LogOptions = {},
): ServerLog {
  const destination = pino.destination({
    fd,
    sync: false,
    minLength: 0,
    maxLength: waitingBytesMax,
  }) as unknown as FileDestination;
  const log = gatheredLog(level, destination, format);
  const { logger } = log;
  let leftOut = 0;
  destination.on("drop", (text) => {
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", end + 1)) leftOut++;
  });
  destination.on("drain", () => {
    if (leftOut === 0) return;
    const count = leftOut;
    leftOut = 0;
    logger.warn(
      { lines: count },
      "log lines were dropped: they were produced faster than they could be written",
    );
  });
  return log;
}

/** The log of a serving thread, whose lines the owner writes: two threads that write at once could mix them. */
export const postedLog = (level: LogLevel, post: (lines: string) => void): ServerLog =>
  gatheredLog(level, { write: post, flushSync: () => {} }, unchanged);

function gatheredLog(level: LogLevel, destination: Destination, format: LineFormat): ServerLog {
  const lines = new GatheredLines(destination, format);
  gathering.add(lines);
  const logger = pino({ level, timestamp: stdTimeFunctions.isoTime }, lines);
  const who = `,"pid":${process.pid},"hostname":${JSON.stringify(hostname())}`;
  const head = `{"level":${infoLevel}`;
  // Many requests end in the same millisecond.
  let now = 0;
  let time = "";
  return {
    logger,
    request(line) {
      if (!logger.isLevelEnabled("info")) return;
      if (now !== Date.now()) {
        now = Date.now();
        time = stdTimeFunctions.isoTime();
      }
      lines.add(`${head}${time}${who}${fieldsOf(line)},"msg":"request"}\n`);
    },
    add: (others) => lines.add(others),
    end() {
      gathering.delete(lines);
      lines.flush();
    },
  };
}

/** The log of a program that embeds the server and gives its own logger. */
export const givenLog = (logger: Logger): ServerLog => ({
  logger,
  request: (line) => logger.info(line, "request"),
  add(lines) {
    for (const line of lines.split("\n")) {
      if (line === "") continue;
      const { level, time: _time, pid: _pid, hostname: _hostname, msg, ...fields } = JSON.parse(line);
      logger[pino.levels.labels[level] as "info"](fields, msg);
    }
  },
  end: () => {},
});

/** Ids and routes have no character that JSON escapes: see requestIdOf and the records of operations; methods are those of the HTTP parser. */
function fieldsOf({ request_id, method, route, status, ms }: RequestLine): string {
  const methodText = method === undefined ? "" : `,"method":"${method}"`;
  const msText = ms === undefined ? "" : `,"ms":${ms}`;
  return `,"request_id":"${request_id}"${methodText},"route":"${route}","status":${status}${msText}`;
}
