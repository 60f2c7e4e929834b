// How does a caller in the same process read what the server sends as a stream?
//
// As a `Response` with the headers that the server sends: the client's readers of exports and of snapshot files work on either.

import { Readable } from "node:stream";
import type { RequestParts } from "@quiverdb/client/transport";
import { type LineExport, type SnapshotFile, turned } from "@quiverdb/engine/database/contract";

/** Bytes of lines that are passed on at once. */
const chunkBytes = 64 * 1024;

/** Lines of JSON. */
export function exportResponse(exported: LineExport): Response {
  async function* chunks(): AsyncGenerator<Uint8Array> {
    try {
      let chunk = "";
      for (const line of exported) {
        chunk += `${line.toJson()}\n`;
        if (chunk.length < chunkBytes) continue;
        yield Buffer.from(chunk);
        chunk = "";
        await turned();
      }
      if (chunk !== "") yield Buffer.from(chunk);
      await turned();
    } finally {
      exported.release();
    }
  }
  const headers = { "x-quiver-version": String(exported.version), "x-quiver-count": String(exported.count) };
  return new Response(ReadableStream.from(chunks()) as never, { headers });
}

/** The file of a snapshot, from the byte on that a `Range` header names. */
export function snapshotResponse({ snapshot, stream }: SnapshotFile, { headers }: RequestParts): Response {
  const { size_bytes: size } = snapshot;
  const start = Number(/^bytes=(\d+)-$/.exec(headers?.range ?? "")?.[1] ?? 0);
  return new Response(Readable.toWeb(stream(start, size)) as never, {
    status: start > 0 ? 206 : 200,
    headers: {
      "content-length": String(size - start),
      "content-range": `bytes ${start}-${size - 1}/${size}`,
    },
  });
}
