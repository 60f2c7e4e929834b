// How does a write reach the writer, and when is it acknowledged?
//
// A write is acknowledged when it is durable and searches see it. A write that needs more memory than there is, or that would leave the
// indexes too far behind, waits or is rejected before the writer gets it.

import { limits } from "@quiver/protocol/limits";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import type { WriteRequest } from "../../collection/accept.ts";
import { checkId, encodeDelete, encodeUpsertsInSteps, type VectorWrite } from "../../collection/schema.ts";
import { Unserved } from "../unserved.ts";
import type { CollectionMemory } from "./memory.ts";
import type { CollectionState } from "./state.ts";

export class Writes {
  readonly #state: CollectionState;
  readonly #memory: CollectionMemory;
  readonly #unserved = new Unserved();

  constructor(state: CollectionState, memory: CollectionMemory) {
    this.#state = state;
    this.#memory = memory;
  }

  async write(
    request: WriteRequest,
    deadline: Deadline = Deadline.none,
  ): Promise<{ version: number; value: unknown }> {
    this.#state.gate.assertOpen();
    deadline.check();
    const written = await this.#state.dependencies.writer.write(this.#state.entry.internalId, request);
    this.#state.writtenVersion = Math.max(this.#state.writtenVersion, written.version);
    this.#state.indexer?.wake();
    return written;
  }

  /**
   * Writes a version. Resolves when a view contains it, or when the backlog is small: then searches need not wait for the indexes.
   * @param bytes size of the write
   * @param patience bounds the waiting for the view. It is not the deadline of the caller: a client that gives up must not leave the
   * waiting to others
   */
  async #writeVersion(
    request: WriteRequest,
    bytes: number,
    deadline: Deadline,
    patience = Deadline.none,
  ): Promise<{ version: number; value: unknown }> {
    const end = this.#unserved.begin(bytes);
    try {
      const written = await this.write(request, deadline);
      end(written.version);
      const indexer = this.#state.indexer;
      const served = indexer === null ? Number.POSITIVE_INFINITY : (indexer.viewAt(0)?.version ?? -1);
      if (!this.#unserved.isLittle(served)) await indexer?.published(written.version, patience);
      this.#state.markSeen(written.version);
      return written;
    } catch (error) {
      end();
      throw error;
    }
  }

  /** Reserves memory for a write that adds records, and passes it to the writer. The deadline counts until then. */
  async writeRecords(
    request: WriteRequest,
    what: string,
    { records, bytes, transientBytes = 0 }: { records: number; bytes: number; transientBytes?: number },
    deadline: Deadline,
  ): Promise<{ version: number; value: unknown }> {
    const patience =
      request.kind === "commit" ? Deadline.of({ timeoutMs: limits.commitWaitMs }) : Deadline.none;
    if (!this.#memory.isLimited) return this.#writeVersion(request, bytes, deadline, patience);
    const growth = this.#memory.growthBy(records, bytes);
    if (!this.#state.isLoaded)
      this.#memory.refuseUnloadable(`${what} in the collection '${this.#state.name}'`, growth);
    const indexBytes = this.#state.isLoaded ? growth : 0;
    const done = await this.#memory.admit(
      `${what} in the collection '${this.#state.name}'`,
      indexBytes,
      bytes + transientBytes,
    );
    try {
      return await this.#writeVersion(request, bytes, deadline, patience);
    } finally {
      done();
    }
  }

  upsert(vectors: readonly VectorWrite[], options?: CallOptions): Promise<void> {
    return this.#state.gate.pass(async () => {
      const deadline = Deadline.of(options);
      // Small requests are encoded and passed on synchronously, before the caller can change the arrays.
      const encoded = deadline.task.begin(encodeUpsertsInSteps(this.#state.definition, vectors, "vectors"));
      const batch = encoded instanceof Promise ? await encoded : encoded;
      if (batch.length === 0) return;
      const records = vectors.length;
      const admitted = this.#indexesTakeMore(records, deadline);
      if (admitted) await admitted;
      const size = { records, bytes: batch.length };
      await this.writeRecords({ kind: "upsert", batch }, `Writing ${records} records`, size, deadline);
    });
  }

  /** Resolves when the indexes are not too far behind for a write; undefined when there is nothing to wait for. */
  #indexesTakeMore(records: number, deadline: Deadline): Promise<void> | undefined {
    const indexer = this.#state.indexer;
    return indexer?.admitWrite(records, deadline)?.catch((error: unknown) => {
      this.#state.gate.assertOpen();
      if (!indexer.isStopped) throw error;
    });
  }

  delete(id: string, options?: CallOptions): Promise<void> {
    return this.#state.gate.pass(async () => {
      checkId(id, "vector_id");
      const batch = encodeDelete(id);
      await this.#writeVersion({ kind: "delete", batch }, batch.length, Deadline.of(options));
    });
  }
}
