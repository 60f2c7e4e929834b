// How do other threads send writes to the writer thread?
//
// `Writer` limits how much may wait, and resolves each promise when the writer thread answers. It answers only after the write is durable.

import { type ErrorCode, type ErrorDetails, errorKinds, QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { Deadline } from "../base/deadline.ts";
import type { WriteRequest } from "../collection/accept.ts";
import type { IndexDefinitions } from "../collection/apply.ts";
import type { CatalogEntry, CatalogRequest } from "../collection/definition.ts";
import type { OrderedMessage } from "../log/ordered.ts";
import { CalledThread } from "./calls.ts";
import type {
  AppliedMessage,
  BrokenCall,
  CommittedCall,
  WriterCommand,
  WriterStart,
  Written,
} from "./writer-thread.ts";

export type { AppliedMessage, Written } from "./writer-thread.ts";

export class Writer {
  readonly #thread: CalledThread;
  readonly #onFailure: (error: Error) => void;
  /** Called when every thread must close and reopen a store; null means the catalog. */
  onBroken: (internalId: string | null) => void = () => {};
  #queueBytes = 0;
  #failure: QuiverError | null = null;
  #state: "starting" | "working" | "stopping" = "starting";
  commits = 0;
  commitRequests = 0;

  private constructor(start: WriterStart, onFailure: (error: Error) => void) {
    this.#onFailure = onFailure;
    this.#thread = new CalledThread(new URL("./writer-thread.ts", import.meta.url), {
      name: "writer",
      start,
      handlers: {
        committed: ({ requests }: CommittedCall) => {
          this.commits++;
          this.commitRequests += requests;
        },
        broken: ({ internalId }: BrokenCall) => this.onBroken(internalId),
      },
      onEnd: (cause) => (this.#state === "working" ? this.#fail(cause) : revived(cause)),
    });
  }

  /**
   * Starts the writer thread.
   * @param onFailure called once if the thread dies; all writes are refused from then on
   */
  static async start(start: WriterStart, onFailure: (error: Error) => void): Promise<Writer> {
    const writer = new Writer(start, onFailure);
    await writer.#thread.calls.call("ready", null);
    writer.#state = "working";
    return writer;
  }

  /** Why all writes are refused; null if they are not. */
  get failure(): QuiverError | null {
    return this.#failure;
  }

  get queueBytes(): number {
    return this.#queueBytes;
  }

  /** Applies a request to a collection; resolves when it is durable. Takes ownership of a batch's buffer. */
  write(internalId: string, request: WriteRequest): Promise<Written> {
    return this.#send({ to: "collection", internalId, request });
  }

  /** Applies messages of a replicated log to a collection, in order; resolves when they are durable (log/ordered.ts). */
  async apply(internalId: string, messages: readonly OrderedMessage[]): Promise<readonly AppliedMessage[]> {
    const { value } = await this.#send({ to: "replica", internalId, messages });
    return value as AppliedMessage[];
  }

  async changeCatalog(request: CatalogRequest): Promise<void> {
    await this.#send({ to: "catalog", request });
  }

  /** @param indexes of a new collection */
  async openStore(
    { internalId, createdMs, definition }: CatalogEntry,
    indexes: IndexDefinitions = {},
  ): Promise<void> {
    await this.#send({ to: "store", kind: "open", internalId, createdMs, definition, indexes });
  }

  async closeStore(internalId: string): Promise<void> {
    await this.#send({ to: "store", kind: "close", internalId });
  }

  async openCatalog(): Promise<void> {
    await this.#send({ to: "catalogStore", kind: "open" });
  }

  async closeCatalog(): Promise<void> {
    await this.#send({ to: "catalogStore", kind: "close" });
  }

  /** Writes everything in the queue, closes the stores and ends the thread. */
  async stop(): Promise<void> {
    if (this.#failure === null) {
      const stopped = this.#send({ to: "writer", kind: "stop" });
      this.#state = "stopping";
      await stopped;
    }
    await this.#thread.stop();
  }

  async #send(command: WriterCommand): Promise<Written> {
    if (this.#failure) throw this.#failure;
    if (this.#state === "stopping")
      throw new QuiverError("shutting_down", "The database is closing; nothing was changed.");
    const { calls } = this.#thread;
    const batch = command.to === "collection" && "batch" in command.request ? command.request.batch : null;
    const bytes = (batch?.length ?? 0) + 256;
    // Writes in the queue never block commands without a batch. An empty queue accepts a write of any size.
    const isFull =
      calls.pending >= limits.writerQueueRequestsMax ||
      (this.#queueBytes > 0 && this.#queueBytes + bytes > limits.writerQueueBytesMax);
    if (batch !== null && isFull)
      throw new QuiverError(
        "overloaded",
        "Too many writes wait for the disk; nothing was changed. Send the request again later.",
      );
    const buffer = batch?.buffer;
    this.#queueBytes += bytes;
    try {
      return await calls.call<Written>(
        "command",
        command,
        Deadline.none,
        buffer instanceof ArrayBuffer ? [buffer] : [],
      );
    } finally {
      this.#queueBytes -= bytes;
    }
  }

  #fail(cause: Error): QuiverError {
    this.#failure = new QuiverError(
      "storage_failed",
      "The writer thread has failed; reads continue, writes need a restart.",
      {},
      { cause },
    );
    this.#onFailure(cause);
    return this.#failure;
  }
}

/** Rebuilds the error that ended the thread: an error of the table arrives as a plain Error with the same properties. */
function revived(error: Error): Error {
  const { code, details } = error as Error & { code?: string; details?: ErrorDetails };
  const isOurs = code !== undefined && Object.hasOwn(errorKinds, code) && details !== undefined;
  return isOurs ? new QuiverError(code as ErrorCode, error.message, details, { cause: error }) : error;
}
