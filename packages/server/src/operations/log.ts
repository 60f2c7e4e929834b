// How is the log written without blocking the server?
//
// Lines are written asynchronously and in order. If the reader is slower than the server (a pipe whose reader hangs, a slow disk), lines
// are buffered up to a limit. Further lines are dropped, and a line reports their number as soon as there is room again. Requests never
// wait for the log.

import { limits } from "@quiver/protocol/limits";
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from "pino";
import type { LogLevel } from "../config.ts";

/** pino documents more of its destination than its types declare. */
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
    logger.warn({ lines }, "log lines were dropped: they were produced faster than they could be written");
  });
  return logger;
}
