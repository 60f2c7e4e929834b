// How is a text that does not change sent as small as the client accepts, and not at all to one that has it?
//
// Compressed once for each content coding, when it is first asked for, in a thread of Node.js' pool; requests that come meanwhile wait for the
// same. A file is compressed by its build (FILE.br, FILE.gz), and read when it is asked for. The entity tag is a hash of the text with the
// coding behind it, since the bytes differ (RFC 9110, 8.8.3).

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import type { FastifyReply, FastifyRequest } from "fastify";

/** The content codings that are known, the smallest first. */
const codings = ["br", "gzip"] as const;
export type Coding = (typeof codings)[number];

/** The smallest coding that an Accept-Encoding header permits; undefined: none. */
export function codingFor(accepted: string | string[] | undefined): Coding | undefined {
  // RFC 9110, 12.5.3: "br;q=0" means that it is not accepted.
  const names = String(accepted ?? "")
    .toLowerCase()
    .split(",")
    .filter((item) => !/;\s*q=0(\.0*)?\s*$/.test(item))
    .map((item) => item.split(";")[0].trim());
  return codings.find((name) => names.includes(name));
}

/** The end of the names of the files that a build has compressed. */
export const endings: Readonly<Record<Coding, string>> = { br: ".br", gzip: ".gz" };

/** The greatest takes forty times as long for an eighth less. */
const brotliQuality = 6;

const compress: Readonly<Record<Coding, (text: Buffer) => Promise<Buffer>>> = {
  br: (text) =>
    promisify(brotliCompress)(text, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: brotliQuality,
        [constants.BROTLI_PARAM_SIZE_HINT]: text.length,
      },
    }),
  gzip: promisify(gzip) as (text: Buffer) => Promise<Buffer>,
};

export class PackedText {
  readonly #text: Buffer;
  readonly #hash: string;
  readonly #packed = new Map<Coding, Promise<Buffer>>();

  constructor(text: string) {
    this.#text = Buffer.from(text);
    this.#hash = hashOf(this.#text);
  }

  /** Sets the headers of an answer with this text. @returns its body; null if the client has it already, and the status is 304 */
  async answer(request: FastifyRequest, reply: FastifyReply): Promise<Buffer | null> {
    const coding = codingFor(request.headers["accept-encoding"]);
    if (isKnown(request, reply, this.#hash, coding)) return null;
    return coding === undefined ? this.#text : await this.#packedAs(coding);
  }

  #packedAs(coding: Coding): Promise<Buffer> {
    let packed = this.#packed.get(coding);
    if (packed === undefined) {
      packed = compress[coding](this.#text);
      this.#packed.set(coding, packed);
    }
    return packed;
  }
}

/** A file that does not change while the server runs. */
export class PackedFile {
  readonly #path: string;
  #hash: Promise<string> | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Made once, however many ask at once, and again after a read that failed. */
  async #hashed(): Promise<string> {
    this.#hash ??= readFile(this.#path).then(hashOf);
    try {
      return await this.#hash;
    } catch (error) {
      this.#hash = undefined;
      throw error;
    }
  }

  /** As that of a text. */
  async answer(request: FastifyRequest, reply: FastifyReply): Promise<Buffer | null> {
    const coding = codingFor(request.headers["accept-encoding"]);
    if (isKnown(request, reply, await this.#hashed(), coding)) return null;
    return readFile(coding === undefined ? this.#path : this.#path + endings[coding]);
  }
}

const hashOf = (text: Buffer): string => createHash("sha256").update(text).digest("base64url").slice(0, 22);

/** Sets the headers of an answer. @returns whether the client has it already; then the status is 304 */
function isKnown(
  request: FastifyRequest,
  reply: FastifyReply,
  hash: string,
  coding: Coding | undefined,
): boolean {
  const tag = `"${hash}${coding === undefined ? "" : `-${coding}`}"`;
  // Without a hash in its name, it is asked for anew each time, and sent if it has changed.
  reply.headers({ etag: tag, "cache-control": "no-cache", vary: "accept-encoding" });
  if (hasTag(request.headers["if-none-match"], tag)) {
    reply.code(304);
    return true;
  }
  if (coding !== undefined) reply.header("content-encoding", coding);
  return false;
}

/** Whether an If-None-Match header names a tag (RFC 9110, 13.1.2: weak comparison). */
function hasTag(header: string | undefined, tag: string): boolean {
  const given = (header ?? "").split(",").map((item) => item.trim().replace(/^W\//, ""));
  return given.includes(tag) || given.includes("*");
}
