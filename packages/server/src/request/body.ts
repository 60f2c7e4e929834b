// How is the body of a request read into memory, and when is it rejected?
//
// Every chunk is counted twice: against the request's own limit, and against its key's share of what all requests together may hold. A
// request releases its bytes when it was answered or its connection was closed, never earlier, because the parsed body lives as long.

import type { IncomingMessage } from "node:http";
import { release, type Task } from "@quiverdb/engine/database/contract";
import { QuiverError } from "@quiverdb/protocol/errors";
import type { FairShare } from "../fair-share.ts";
import { inviteBody } from "./early-answer.ts";

/** The bytes that the body of one request takes of the total for all bodies. */
export class BodyShare {
  readonly #budget: FairShare;
  readonly #key: string;
  #bytes = 0;
  #over = false;

  /** @param key that sent the request */
  constructor(budget: FairShare, key: string) {
    this.#budget = budget;
    this.#key = key;
  }

  take(bytes: number): boolean {
    if (this.#over) return false;
    // A single body may use all of the room: a limit must never reject everything.
    const isAlone = this.#budget.taken === this.#bytes && this.#bytes + bytes <= this.#budget.max;
    if (isAlone) this.#budget.force(this.#key, bytes);
    else if (!this.#budget.take(this.#key, bytes)) return false;
    this.#bytes += bytes;
    return true;
  }

  /** Releases everything; later calls take nothing. */
  end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#budget.giveBack(this.#key, this.#bytes);
  }
}

/**
 * Bytes of a body that are read per time slice of its key: what Node.js reads at a time. The arrival of fewer bytes is not charged: it takes
 * a thirtieth of the time of parsing them.
 */
export const arrivingBytes = 64 * 1024;

/**
 * Reads a body no faster than its key gets time slices, so that a large upload cannot monopolise the event loop.
 * @param makeTask the task that gets the slices; made when the body is longer than what one slice lets arrive
 * @returns a function to call with each chunk
 */
function pacer(stream: IncomingMessage, makeTask: () => Task): (bytes: number) => void {
  let task: Task | undefined;
  let left = arrivingBytes;
  let uncharged = 0;
  return (bytes) => {
    left -= bytes;
    uncharged += bytes;
    if (left > 0) return;
    left = arrivingBytes;
    task ??= makeTask();
    task.arrived(uncharged);
    uncharged = 0;
    stream.pause();
    const goOn = () => stream.resume();
    // If the deadline is over, the rest of the body is read without a pause, because the response reports the error.
    task.slice().then(goOn, goOn);
  };
}

/**
 * Reads the whole body; an empty one is `undefined`.
 * @param declaredBytes its Content-Length; NaN if it has none
 * @param fault why a body is not acceptable, if there is one; called once it is known that it is not empty
 * @param makeTask makes the task that limits how fast a long body is read
 * @throws body_too_large, overloaded, the fault; rejects with the stream's error when the client goes away
 */
export function readBody(
  stream: IncomingMessage,
  declaredBytes: number,
  share: BodyShare,
  bytesMax: number,
  fault: () => QuiverError | undefined,
  makeTask: () => Task,
): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let received = 0;
    // The listeners stay, because removing them costs more than calling them once more.
    let isSettled = false;
    const tell = pacer(stream, makeTask);
    const fail = (error: Error) => {
      isSettled = true;
      reject(error);
    };
    const onData = (chunk: Buffer) => {
      if (isSettled) return;
      if (received === 0) {
        const error = fault();
        if (error) return fail(error);
      }
      received += chunk.length;
      if (received > bytesMax) return fail(tooLarge(bytesMax, received));
      if (!share.take(chunk.length)) return fail(overloaded());
      chunks.push(chunk);
      tell(chunk.length);
    };
    const onEnd = () => {
      isSettled = true;
      resolve(received === 0 ? undefined : chunks.length === 1 ? chunks[0] : joined(chunks, received));
    };
    const onClose = () => {
      if (!isSettled) fail(new Error("the connection ended before the request did"));
    };

    if (declaredBytes > bytesMax) return fail(tooLarge(bytesMax, declaredBytes));
    inviteBody(stream);
    stream.on("data", onData).on("end", onEnd).on("error", fail).on("close", onClose);
  });
}

/** The chunks as one buffer; frees their memory. */
function joined(chunks: readonly Buffer[], bytes: number): Buffer {
  const whole = Buffer.allocUnsafeSlow(bytes);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
    release(chunk);
  }
  return whole;
}

const tooLarge = (bytesMax: number, received: number) =>
  new QuiverError(
    "body_too_large",
    `The request body has at least ${received} bytes; the server accepts at most ${bytesMax}. ` +
      "Send fewer records in each request, or start the server with a higher body limit.",
    { received_bytes: received, limit_bytes: bytesMax },
  );

const overloaded = () =>
  new QuiverError(
    "overloaded",
    "The key has reached its limit of request body bytes in progress. Send the request again later.",
  );
