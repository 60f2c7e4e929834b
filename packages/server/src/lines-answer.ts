// How does an answer leave that is larger than memory?
//
// Line by line, as fast as the caller reads: lines are made only when the connection takes more. Whoever hangs up, or
// stops the server, ends the source, and what it holds is given back.

import { Readable } from "node:stream";

/** Lines of JSON and the headers that go before them. */
export class Lines {
  readonly headers: Readonly<Record<string, string>>;
  readonly #texts: Iterable<string>;
  readonly #onClose: () => void;

  /**
   * @param texts JSON texts without line ends
   * @param onClose called once when nothing more is read, whether all was or the connection is gone
   */
  constructor(texts: Iterable<string>, headers: Readonly<Record<string, string>>, onClose: () => void) {
    this.#texts = texts;
    this.headers = headers;
    this.#onClose = onClose;
  }

  /** Bytes of a chunk, about. */
  static readonly chunkBytes = 64 * 1024;

  stream(): Readable {
    const stream = Readable.from(this.#chunks(), {
      objectMode: false,
      highWaterMark: 4 * Lines.chunkBytes,
    });
    return stream.once("close", this.#onClose);
  }

  *#chunks(): Generator<string> {
    let chunk = "";
    for (const text of this.#texts) {
      chunk += `${text}\n`;
      if (chunk.length < Lines.chunkBytes) continue;
      yield chunk;
      chunk = "";
    }
    if (chunk !== "") yield chunk;
  }
}
