// How do the records of a body reach the engine, and when is the body's memory freed?

import { type Deadline, release, type Task, type VectorWrite } from "@quiverdb/engine/database/contract";
import type { VectorInput } from "@quiverdb/protocol/shapes/vector";
import { readVectors } from "./dense-vectors.ts";
import { withExactMetadata } from "./exact-metadata.ts";
import type { ParsedBody } from "./json.ts";

/** What a handler knows of a request with many records. */
type RecordsCall = {
  readonly body: { readonly vectors: readonly VectorInput[] };
  readonly parsed: ParsedBody;
  readonly work: { readonly task: Task };
  readonly deadline: Deadline;
};

/** Passes the records of a body to `write`. Afterwards neither the body's bytes nor its vectors can be read. */
export async function writeRecords(
  { body, parsed, work, deadline }: RecordsCall,
  write: (vectors: readonly VectorWrite[], deadline: Deadline) => Promise<void>,
): Promise<void> {
  await work.task.finish(readVectors(body.vectors, "dense_values", "vectors", parsed));
  const vectors = await work.task.finish(withExactMetadata(body.vectors, parsed, "vectors"));
  release(parsed.bytes);
  await write(vectors, deadline);
  parsed.arena?.free();
}
