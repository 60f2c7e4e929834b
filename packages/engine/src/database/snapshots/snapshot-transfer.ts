// How do the bytes of a snapshot's file come in and go out?

import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { backupMagic } from "@quiverdb/protocol/backup-format";
import { invalidSnapshot } from "./block-file.ts";

/** The bytes of a file; the last ones are sent only if the SHA-256 of all bytes is right. */
export async function* provedBytes(
  file: AsyncIterable<Buffer>,
  sha256: string,
  onWrong: () => Error,
): AsyncGenerator<Buffer> {
  const hash = createHash("sha256");
  let held: Buffer | undefined;
  for await (const chunk of file) {
    hash.update(chunk);
    if (held !== undefined) yield held;
    held = chunk;
  }
  if (hash.digest("hex") !== sha256) throw onWrong();
  if (held !== undefined) yield held;
}

/** Writes a stream durably to a new file. @returns its SHA-256 in hex */
export async function writeFile(
  path: string,
  source: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<string> {
  const hash = createHash("sha256");
  const file = await open(path, "wx", 0o600);
  let begin = Buffer.alloc(0);
  try {
    for await (const chunk of until(signal, source)) {
      if (begin.length < backupMagic.length) {
        // A file that is not a backup is rejected before all of it has arrived.
        begin = Buffer.concat([begin, chunk]);
        if (!isBackup(begin))
          throw invalidSnapshot(
            "foreign",
            0,
            "is not a Quiver backup: it does not start with the magic bytes",
          );
      }
      hash.update(chunk);
      for (let at = 0; at < chunk.length; ) {
        const { bytesWritten } = await file.write(chunk, at, chunk.length - at);
        at += bytesWritten;
      }
    }
    signal.throwIfAborted();
    await file.sync();
  } finally {
    await file.close();
  }
  return hash.digest("hex");
}

/** The chunks of a source, until the signal aborts. */
async function* until<T>(signal: AbortSignal, source: AsyncIterable<T>): AsyncGenerator<T> {
  const iterator = source[Symbol.asyncIterator]();
  let stop = () => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
  });
  // There is no listener while a chunk is being written; the next iteration of the loop adds one.
  aborted.catch(() => undefined);
  try {
    for (;;) {
      signal.throwIfAborted();
      const { done, value } = await Promise.race([iterator.next(), aborted]);
      if (done) return;
      yield value;
    }
  } finally {
    signal.removeEventListener("abort", stop);
    // A source that hangs would never resolve this.
    iterator.return?.()?.catch(() => undefined);
  }
}

/** Whether bytes are those that a backup begins with, as far as they go. */
function isBackup(begin: Buffer): boolean {
  const length = Math.min(begin.length, backupMagic.length);
  return begin.toString("latin1", 0, length) === backupMagic.slice(0, length);
}
