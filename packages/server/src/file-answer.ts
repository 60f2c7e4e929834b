// How is a file sent, whole or as a byte range?
//
// A single range of bytes is served (RFC 9110, 14). Multiple or malformed ranges get the whole file, as the RFC allows. Files never change
// under their name, so an interrupted download can be resumed.

import type { Readable } from "node:stream";
import { QuiverError } from "@quiverdb/protocol/errors";
import { invariant } from "@quiverdb/protocol/invariant";
import type { FastifyReply } from "fastify";

export class FileAnswer {
  readonly size: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly #stream: (start: number, end: number) => Readable;

  /** @param stream returns the bytes from `start` to `end` (exclusive) */
  constructor(
    size: number,
    headers: Readonly<Record<string, string>>,
    stream: (start: number, end: number) => Readable,
  ) {
    this.size = size;
    this.headers = headers;
    this.#stream = stream;
  }

  /** @throws range_not_satisfiable, and what `stream` throws */
  send(reply: FastifyReply, rangeHeader: string | undefined): FastifyReply {
    const { size } = this;
    const range = readRange(rangeHeader, size);
    if (range === "beyond") {
      reply.header("content-range", `bytes */${size}`);
      throw new QuiverError(
        "range_not_satisfiable",
        `The file has ${size} bytes; the Range header requests none of them. Request bytes from 0 to ${size - 1}.`,
        { path: "Range", size_bytes: size },
      );
    }
    const [start, end] = range ?? [0, size];
    invariant(0 <= start && start <= end && end <= size, `bytes ${start} to ${end} of ${size} are sent`);
    const stream = this.#stream(start, end);
    if (range) reply.code(206).header("content-range", `bytes ${start}-${end - 1}/${size}`);
    return reply
      .headers(this.headers)
      .header("accept-ranges", "bytes")
      .header("content-length", end - start)
      .type("application/octet-stream")
      .send(stream);
  }
}

/** The range that a header requests, its end exclusive; undefined: the whole file. */
export function readRange(header: string | undefined, size: number): [number, number] | "beyond" | undefined {
  const match = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? "");
  if (match === null || (match[1] === "" && match[2] === "")) return undefined;
  if (match[1] === "") {
    const last = Math.min(size, Number(match[2]));
    return last === 0 ? "beyond" : [size - last, size];
  }
  const start = Number(match[1]);
  const end = match[2] === "" ? size : Math.min(size, Number(match[2]) + 1);
  if (start >= size) return "beyond";
  return end <= start ? undefined : [start, end];
}
