// How does an answer leave that is larger than memory?
//
// Line by line, as fast as the caller reads: lines are made only when the connection takes more, and only in time slices, so that a
// fast reader has no more of the server than its share. Whoever hangs up, or stops the server, ends the source, and what it holds is
// given back.

import { Readable } from "node:stream";
import type { Task } from "@quiver/engine/database/contract";

/** Lines of JSON and the headers that go before them. */
export class Lines {
  readonly headers: Readonly<Record<string, string>>;
  readonly #texts: Iterable<string>;
  readonly #task: Task;
  readonly #onClose: () => void;

  /**
   * @param texts JSON texts without line ends
   * @param task in whose slices they are made
   * @param onClose called once when nothing more is read, whether all was or the connection is gone
   */
  constructor(
    texts: Iterable<string>,
    headers: Readonly<Record<string, string>>,
    task: Task,
    onClose: () => void,
  ) {
    this.#texts = texts;
    this.headers = headers;
    this.#task = task;
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

  async *#chunks(): AsyncGenerator<string> {
    let chunk = "";
    await this.#task.slice();
    for (const text of this.#texts) {
      chunk += `${text}\n`;
      if (chunk.length < Lines.chunkBytes) {
        await this.#task.pause();
        continue;
      }
      yield chunk;
      chunk = "";
      await this.#task.slice();
    }
    if (chunk !== "") yield chunk;
  }
}
