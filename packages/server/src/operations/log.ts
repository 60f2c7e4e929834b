// Where does the log go when nobody reads it?
//
// Lines are written beside the event loop, in order. Where what reads them is slower than the server (a pipe whose reader hangs, a slow
// disk), lines wait, up to a limit; further ones are left out, and a line says how many as soon as there is room again. Requests
// never wait for the log.

import { limits } from "@quiver/protocol/limits";
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from "pino";
import type { LogLevel } from "../config.ts";

/** pino types less of its destination than it documents. */
type Destination = DestinationStream & {
  on(event: "drop" | "drain", act: () => void): void;
};

/** A log that goes to a file descriptor; 1 is standard output. */
export function openLog(
  level: LogLevel,
  waitingBytesMax: number = limits.logWaitingBytesMax,
  fd = 1,
): Logger {
  const destination = pino.destination({
    fd,
    sync: false,
    minLength: 0,
    maxLength: waitingBytesMax,
  }) as unknown as Destination;
  const logger = pino({ level, timestamp: stdTimeFunctions.isoTime }, destination);
  let leftOut = 0;
  destination.on("drop", () => {
    leftOut++;
  });
  destination.on("drain", () => {
    if (leftOut === 0) return;
    const lines = leftOut;
    leftOut = 0;
    logger.warn({ lines }, "log lines were left out: they came faster than they could be written");
  });
  return logger;
}
