// How does a write reach the writer, and when is it acknowledged?
//
// When it is durable and searches see it. What would take more memory than there is, and what would leave the indexes too far behind,
// waits or is refused before it is handed over.

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
    this.#state.catchUp?.wake();
    return written;
  }

  /**
   * Makes a version. Resolves when the indexes serve it, so that searches need not wait for them, or when little is missing.
   * @param bytes of what is written
   * @param patience ends the waiting: what was written is acknowledged then, and searches wait for it. Not the caller's deadline:
   * one who gives up must not leave the waiting to others
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
      const catchUp = this.#state.catchUp;
      const served = catchUp === null ? Number.POSITIVE_INFINITY : (catchUp.viewAt(0)?.version ?? -1);
      if (!this.#unserved.isLittle(served)) await catchUp?.published(written.version, patience);
      this.#state.told(written.version);
      return written;
    } catch (error) {
      end();
      throw error;
    }
  }

  /** Hands a write over that adds records, when there is memory for it. The deadline ends with the handing over. */
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
      // What is encoded at once is handed over at once, before whoever asks can change his mind.
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

  /** Resolves when the indexes are not too far behind for a write; undefined: at once. What is unloaded has none to wait for. */
  #indexesTakeMore(records: number, deadline: Deadline): Promise<void> | undefined {
    const catchUp = this.#state.catchUp;
    return catchUp?.admitWrite(records, deadline)?.catch((error: unknown) => {
      this.#state.gate.assertOpen();
      if (!catchUp.isStopped) throw error;
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
