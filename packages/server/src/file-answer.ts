// How does a file leave, whole or from where an earlier download broke off?
//
// A single range of bytes is served (RFC 9110, 14); several at once, and what is no range at all, are answered with the whole
// file, as the RFC allows. The files never change under their name, so a download can go on where it broke off.

import type { Readable } from "node:stream";
import { QuiverError } from "@quiver/protocol/errors";
import { invariant } from "@quiver/protocol/invariant";
import type { FastifyReply } from "fastify";

export class FileAnswer {
  readonly size: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly #stream: (start: number, end: number) => Readable;

  /** @param stream gives the bytes from `start` up to `end`, exclusive */
  constructor(
    size: number,
    headers: Readonly<Record<string, string>>,
    stream: (start: number, end: number) => Readable,
  ) {
    this.size = size;
    this.headers = headers;
    this.#stream = stream;
  }

  /** @throws range_not_satisfiable */
  send(reply: FastifyReply, rangeHeader: string | undefined): FastifyReply {
    const { size } = this;
    const range = readRange(rangeHeader, size);
    if (range === "beyond") {
      reply.header("content-range", `bytes */${size}`);
      throw new QuiverError(
        "range_not_satisfiable",
        `The file has ${size} bytes, and none of those that Range asks for. Ask for bytes from 0 to ${size - 1}.`,
        { path: "Range", size_bytes: size },
      );
    }
    const [start, end] = range ?? [0, size];
    invariant(0 <= start && start <= end && end <= size, `bytes ${start} to ${end} of ${size} are sent`);
    if (range) reply.code(206).header("content-range", `bytes ${start}-${end - 1}/${size}`);
    return reply
      .headers(this.headers)
      .header("accept-ranges", "bytes")
      .header("content-length", end - start)
      .type("application/octet-stream")
      .send(this.#stream(start, end));
  }
}

/** The range that a header asks for, its end exclusive; undefined: the whole file. */
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
