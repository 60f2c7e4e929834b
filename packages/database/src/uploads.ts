// How is a file read that a caller uploads in the same process?

import type { RequestParts } from "@quiverdb/client/transport";

/** The bytes of a Blob or a stream, piece by piece. */
export async function* bytesOfUpload(upload: RequestParts["upload"]): AsyncGenerator<Uint8Array> {
  const source = upload?.();
  if (source === undefined) return;
  yield* source instanceof Blob ? source.stream() : source;
}
