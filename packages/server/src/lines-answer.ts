// How is a response sent that is larger than memory?
//
// Line by line, as fast as the client reads. Lines are produced only when the connection accepts more, and only in time slices, so that a
// fast reader gets no more than its share of the server. When the client disconnects or the server stops, the source is closed and its
// resources are released.

import { Readable } from "node:stream";
import type { Task } from "@quiverdb/engine/database/contract";

/** JSON lines and the headers of the response. */
export class Lines {
  readonly headers: Readonly<Record<string, string>>;
  readonly #texts: AsyncIterable<string>;
  readonly #task: Task;
  readonly #onClose: () => void;

  /**
   * @param texts JSON texts without line ends
   * @param task whose time slices produce the lines
   * @param onClose called once when reading ends, whether complete or because the connection was closed
   */
  constructor(
    texts: AsyncIterable<string>,
    headers: Readonly<Record<string, string>>,
    task: Task,
    onClose: () => void,
  ) {
    this.#texts = texts;
    this.headers = headers;
    this.#task = task;
    this.#onClose = onClose;
  }

  /** Approximate bytes of a chunk. */
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
    for await (const text of this.#texts) {
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
