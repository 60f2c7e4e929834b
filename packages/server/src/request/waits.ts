// For how long does a client wait for its answer?
//
// It says so itself with `x-quiver-timeout-ms`, counted from the moment at which its headers are there, up to the server's maximum;
// searches that say nothing get the server's default. And it waits no longer when its connection is gone. Both end what is done for it, at the next step.

import type { IncomingMessage, ServerResponse } from "node:http";
import { type Account, Deadline } from "@quiver/engine/database/contract";
import { limits } from "@quiver/protocol/limits";
import type { Access } from "../auth/access.ts";
import { fieldError } from "./validation.ts";

export const timeoutHeader = "x-quiver-timeout-ms";

export type WaitTimes = {
  readonly defaultMs: number | undefined;
  readonly maxMs: number;
  readonly workMs: number | undefined;
};

export class Waits {
  readonly #gone = new AbortController();
  readonly deadline: Deadline;

  /**
   * Begins now.
   * @param defaultMs where the client says nothing; undefined for no limit
   * @param maxMs what the client says is cut to this
   * @param workMs of processor time that the request may take; undefined for no limit
   * @param account that pays for the request
   * @param access who calls; work ends, too, when the key is revoked or has expired. Absent where no key is needed
   * @throws invalid_request for a header that is no number of milliseconds
   */
  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    { defaultMs, maxMs, workMs }: WaitTimes,
    account: Account,
    access: Access | undefined,
  ) {
    const wantedMs = timeoutOf(request.headers[timeoutHeader]) ?? defaultMs;
    const timeoutMs = wantedMs === undefined ? undefined : Math.min(wantedMs, maxMs);
    this.deadline = Deadline.of({
      timeoutMs,
      signal: this.#gone.signal,
      recheck: access && (() => access.requireValid()),
      account,
      workMs,
    });
    response.once("close", () => {
      if (!response.writableFinished) this.#gone.abort(new Error("the client has gone"));
    });
  }

  /** Whether the connection ended before the answer was sent. */
  get isGone(): boolean {
    return this.#gone.signal.aborted;
  }
}

function timeoutOf(header: string | string[] | undefined): number | undefined {
  if (header === undefined) return undefined;
  const value = typeof header === "string" && /^ *\d{1,10} *$/.test(header) ? Number(header) : Number.NaN;
  if (value >= 1 && value <= limits.requestDeadlineMsMax) return value;
  throw fieldError(
    timeoutHeader,
    `a whole number of milliseconds from 1 to ${limits.requestDeadlineMsMax}`,
    "something else",
    `The header ${timeoutHeader} is no whole number of milliseconds from 1 to ${limits.requestDeadlineMsMax}.`,
  );
}
