// How does the body of a request get into memory, and when is it refused on the way?
//
// Every chunk is counted twice: against the request's own limit, and against its key's share of what all requests together may hold.
// A request gives its bytes back when it has been answered or its connection has gone, never earlier: what was parsed
// from the body lives as long.

import type { IncomingMessage } from "node:http";
import type { Task } from "@quiver/engine/database/contract";
import { QuiverError } from "@quiver/protocol/errors";
import type { FairShare } from "../fair-share.ts";

/** What the body of one request holds of what all bodies together may. */
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
    // The only body there is has room for all of it: a limit must not refuse everybody.
    const isAlone = this.#budget.taken === this.#bytes && this.#bytes + bytes <= this.#budget.max;
    if (isAlone) this.#budget.force(this.#key, bytes);
    else if (!this.#budget.take(this.#key, bytes)) return false;
    this.#bytes += bytes;
    return true;
  }

  /** Gives everything back; later calls take nothing more. */
  end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#budget.giveBack(this.#key, this.#bytes);
  }
}

/** Bytes of a body that are taken between two time slices of its key: what Node reads at a time. */
export const arrivingBytes = 64 * 1024;

/**
 * Lets a body arrive no faster than its key gets slices: who sends much is kept from taking the event loop by that alone.
 * @returns to be told of each chunk
 */
function pacer(stream: IncomingMessage, task: Task): (bytes: number) => void {
  let left = arrivingBytes;
  return (bytes) => {
    task.arrived(bytes);
    left -= bytes;
    if (left > 0) return;
    left = arrivingBytes;
    stream.pause();
    const goOn = () => stream.resume();
    // Its deadline may be over; what is still to come flows on then, for the answer says so.
    task.slice().then(goOn, goOn);
  };
}

/** Lets what is still to come of a refused body flow into nothing, so that the client can read the answer. */
export function drain(stream: IncomingMessage, task: Task): void {
  const onData = pacer(stream, task);
  stream.on("error", ignore).on("data", (chunk: Buffer) => onData(chunk.length));
}

/**
 * Reads the whole body; an empty one is `undefined`.
 * @param pace whose slices it takes to arrive; of the body alone
 * @throws body_too_large, overloaded, unsupported_media_type (`acceptable` is false and there is a body); rejects
 *   with the stream's error when the client goes away
 */
export function readBody(
  stream: IncomingMessage,
  share: BodyShare,
  bytesMax: number,
  acceptable: () => QuiverError | undefined,
  pace: Task,
): Promise<Buffer | undefined> {
  const declared = Number(stream.headers["content-length"] ?? Number.NaN);
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let received = 0;

    const settle = (act: () => void) => {
      stream.off("data", onData).off("end", onEnd).off("error", onError).off("close", onClose);
      act();
    };
    const tell = pacer(stream, pace);
    const refuse = (error: QuiverError) =>
      settle(() => {
        drain(stream, pace);
        reject(error);
      });
    const onData = (chunk: Buffer) => {
      if (received === 0) {
        const error = acceptable();
        if (error) return refuse(error);
      }
      received += chunk.length;
      if (received > bytesMax) return refuse(tooLarge(bytesMax, received));
      if (!share.take(chunk.length)) return refuse(overloaded());
      chunks.push(chunk);
      tell(chunk.length);
    };
    const onEnd = () =>
      settle(() =>
        resolve(received === 0 ? undefined : chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)),
      );
    const onError = (error: Error) => settle(() => reject(error));
    const onClose = () => settle(() => reject(new Error("the connection ended before the request did")));

    if (declared > bytesMax) return refuse(acceptable() ?? tooLarge(bytesMax, declared));
    stream.on("data", onData).on("end", onEnd).on("error", onError).on("close", onClose);
  });
}

const ignore = () => {};

const tooLarge = (bytesMax: number, received: number) =>
  new QuiverError(
    "body_too_large",
    `The request body has ${received} bytes or more, the server takes at most ${bytesMax}. ` +
      "Send fewer records in each request, or start the server with a higher body limit.",
    { received_bytes: received, limit_bytes: bytesMax },
  );

const overloaded = () =>
  new QuiverError(
    "overloaded",
    "The key has as many bytes of request bodies under way as it may. Send the request again later.",
  );
