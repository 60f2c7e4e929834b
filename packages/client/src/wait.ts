// How does the client wait for a condition on the server?

import { QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import type { CallOptions, Runtime } from "./transport.ts";

/** How long and how often to ask for what is waited for. */
export type WaitOptions = {
  /** Ends the waiting, which then throws the signal's reason. */
  signal?: AbortSignal;
  /** Maximum time to wait, in milliseconds. Default: no limit. */
  timeoutMs?: number;
  /** Maximum interval between two polls, in milliseconds; the first polls come sooner. Default 1,000. */
  pollMs?: number;
};

const firstPollMs = 20;

/**
 * Polls until `ask` returns a value.
 * @param what names the condition in the error
 * @throws QuiverError unknown_field or invalid_request for invalid options; connection_failed with `details.reason` "timeout" after
 *   `timeoutMs`
 */
export async function waitFor<T>(
  what: string,
  ask: (call: CallOptions) => Promise<T | undefined>,
  options: WaitOptions,
  runtime: Runtime,
): Promise<T> {
  refuseUnknownOptions(options, ["signal", "timeoutMs", "pollMs"]);
  const pollMsMax = options.pollMs ?? 1_000;
  const deadline = options.timeoutMs === undefined ? undefined : runtime.now() + options.timeoutMs;
  const signal = options.signal ?? new AbortController().signal;
  for (let pollMs = Math.min(firstPollMs, pollMsMax); ; pollMs = Math.min(pollMs * 2, pollMsMax)) {
    const answer = await ask({ signal });
    if (answer !== undefined) return answer;
    if (deadline !== undefined && runtime.now() + pollMs > deadline) {
      throw new QuiverError("connection_failed", `${what} took longer than ${options.timeoutMs} ms.`, {
        reason: "timeout",
        timeout_ms: options.timeoutMs,
      });
    }
    await runtime.sleep(pollMs, signal);
  }
}
