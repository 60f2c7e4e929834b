// For how long does a client wait for its answer?
//
// The client sets `x-quiver-timeout-ms`, which counts from the arrival of the headers and is limited by the server's maximum; searches
// without it get the server's default. A client whose connection is closed does not wait any longer. Both stop the work for the request at
// its next step.

import type { IncomingMessage } from "node:http";
import { type Account, type CancelSignal, Deadline, type Trace } from "@quiverdb/engine/database/contract";
import { keyFor } from "@quiverdb/engine/operations/operation";
import type { Operation } from "@quiverdb/engine/operations/operations";
import { fieldError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { Access } from "../auth/access.ts";

const timeoutHeader = "x-quiver-timeout-ms";

export type WaitTimes = {
  readonly defaultMs: number | undefined;
  readonly maxMs: number;
  readonly workMs: number | undefined;
};

export class Waits {
  readonly #departure = new Departure();
  readonly deadline: Deadline;

  /**
   * Starts the clock.
   * @param defaultMs used if the client sets no timeout; undefined for no limit
   * @param maxMs upper bound of the client's timeout
   * @param workMs of processor time that the request may take; undefined for no limit
   * @param account the request is charged to
   * @param trace receives the steps of the work, if somebody does
   * @param operation whether it takes a key
   * @param access of the caller; work also stops when the key is revoked or has expired. Absent if no key is needed
   * @throws invalid_request for a header that is not a number of milliseconds, or not a key
   */
  constructor(
    request: IncomingMessage,
    { defaultMs, maxMs, workMs }: WaitTimes,
    account: Account,
    access: Access | undefined,
    trace: Trace | undefined,
    operation: Pick<Operation, "once" | "role" | "method">,
  ) {
    const wantedMs = timeoutOf(request.headers[timeoutHeader]) ?? defaultMs;
    const timeoutMs = wantedMs === undefined ? undefined : Math.min(wantedMs, maxMs);
    this.deadline = Deadline.of({
      timeoutMs,
      signal: this.#departure,
      recheck: access?.requireValid,
      account,
      workMs,
      trace,
      idempotencyKey: keyFor(operation, request.headers[keyHeader]?.toString()),
    });
  }

  /** Whether the connection ended before the answer was sent. */
  get isGone(): boolean {
    return this.#departure.aborted;
  }

  /** The connection has ended before the answer was sent. */
  leave(): void {
    this.#departure.happen();
  }
}

/** Tells that the client is gone. An AbortController would do the same at ten times the cost. */
class Departure implements CancelSignal {
  aborted = false;
  reason: unknown;
  #listeners: Set<() => void> | undefined;

  addEventListener(_type: "abort", act: () => void): void {
    this.#listeners ??= new Set();
    this.#listeners.add(act);
  }

  removeEventListener(_type: "abort", act: () => void): void {
    this.#listeners?.delete(act);
  }

  happen(): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = new Error("the client disconnected");
    // Each is called once: a listener may remove itself or others meanwhile.
    for (const act of this.#listeners ?? []) act();
    this.#listeners = undefined;
  }
}

const keyHeader = "idempotency-key";

function timeoutOf(header: string | string[] | undefined): number | undefined {
  if (header === undefined) return undefined;
  const value = typeof header === "string" && /^ *\d{1,10} *$/.test(header) ? Number(header) : Number.NaN;
  if (value >= 1 && value <= limits.requestDeadlineMsMax) return value;
  throw fieldError(
    timeoutHeader,
    `a whole number of milliseconds from 1 to ${limits.requestDeadlineMsMax}`,
    "something else",
    `The header ${timeoutHeader} is not a whole number of milliseconds from 1 to ${limits.requestDeadlineMsMax}.`,
  );
}
