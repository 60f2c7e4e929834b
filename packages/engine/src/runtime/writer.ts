// How do other threads send writes to the writer thread?
//
// `Writer` numbers commands, limits how much may wait, and resolves each promise when the writer thread replies. The writer thread
// replies only after the write is durable.

import { Worker } from "node:worker_threads";
import { type ErrorCode, type ErrorDetails, errorKinds, QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { WriteRequest } from "../collection/accept.ts";
import type { CatalogEntry, CatalogRequest } from "../collection/catalog.ts";
import { threadFile } from "./thread-file.ts";
import {
  fromWire,
  type WriterCommand,
  type WriterMessage,
  type WriterNotice,
  type WriterReply,
  type WriterStart,
} from "./writer-messages.ts";

export type Written = { version: number; value: unknown };

type Pending = {
  resolve(written: Written): void;
  reject(error: unknown): void;
  bytes: number;
};

export class Writer {
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  readonly #onFailure: (error: Error) => void;
  /** Called when every thread must close and reopen a store; null means the catalog. */
  onBroken: (internalId: string | null) => void = () => {};
  #nextNumber = 1;
  #queueBytes = 0;
  #failure: QuiverError | null = null;
  #stopping = false;
  commits = 0;
  commitRequests = 0;

  private constructor(worker: Worker, onFailure: (error: Error) => void) {
    this.#worker = worker;
    this.#onFailure = onFailure;
  }

  /**
   * Starts the writer thread.
   * @param onFailure called once if the thread dies; all writes are refused from then on
   */
  static async start(start: WriterStart, onFailure: (error: Error) => void): Promise<Writer> {
    const worker = new Worker(threadFile(new URL("./writer-thread.ts", import.meta.url)), {
      workerData: start,
      name: "quiver writer",
    });
    const writer = new Writer(worker, onFailure);
    await new Promise<void>((resolve, reject) => {
      const failed = (error: Error) => reject(revived(error));
      worker.once("error", failed);
      worker.on("message", (message: WriterReply | WriterNotice) => {
        if ("notice" in message && message.notice === "ready") {
          worker.off("error", failed);
          resolve();
        } else writer.#receive(message);
      });
    });
    worker.on("error", (error) => writer.#fail(error));
    worker.on("exit", () => {
      if (!writer.#stopping) writer.#fail(new Error("the writer thread ended"));
    });
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

  async changeCatalog(request: CatalogRequest): Promise<void> {
    await this.#send({ to: "catalog", request });
  }

  async openStore({ internalId, createdMs, definition }: CatalogEntry): Promise<void> {
    await this.#send({ to: "store", kind: "open", internalId, createdMs, definition });
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
      this.#stopping = true;
      await stopped;
    }
    await this.#worker.terminate();
  }

  #send(command: WriterCommand): Promise<Written> {
    if (this.#failure) return Promise.reject(this.#failure);
    if (this.#stopping)
      return Promise.reject(
        new QuiverError("shutting_down", "The database is closing; nothing was changed."),
      );
    const batch = command.to === "collection" && "batch" in command.request ? command.request.batch : null;
    const bytes = (batch?.length ?? 0) + 256;
    // Writes in the queue never block commands without a batch. An empty queue accepts a write of any size.
    const isFull =
      this.#pending.size >= limits.writerQueueRequestsMax ||
      (this.#queueBytes > 0 && this.#queueBytes + bytes > limits.writerQueueBytesMax);
    if (batch !== null && isFull)
      return Promise.reject(
        new QuiverError(
          "overloaded",
          "Too many writes wait for the disk; nothing was changed. Send the request again later.",
        ),
      );
    const number = this.#nextNumber++;
    return new Promise((resolve, reject) => {
      this.#pending.set(number, { resolve, reject, bytes });
      this.#queueBytes += bytes;
      const message: WriterMessage = { number, command };
      const buffer = batch?.buffer;
      this.#worker.postMessage(message, buffer instanceof ArrayBuffer ? [buffer] : []);
    });
  }

  #receive(message: WriterReply | WriterNotice): void {
    if ("notice" in message) {
      if (message.notice === "committed") {
        this.commits++;
        this.commitRequests += message.requests;
      } else if (message.notice === "broken") this.onBroken(message.internalId);
      return;
    }
    const pending = this.#pending.get(message.number);
    if (!pending) return;
    this.#pending.delete(message.number);
    this.#queueBytes -= pending.bytes;
    if (message.ok) pending.resolve({ version: message.version, value: message.value });
    else pending.reject(fromWire(message.error));
  }

  #fail(cause: Error): void {
    if (this.#failure || this.#stopping) return;
    this.#failure = new QuiverError(
      "storage_failed",
      "The writer thread has failed; reads continue, writes need a restart.",
      {},
      { cause },
    );
    for (const pending of this.#pending.values()) pending.reject(this.#failure);
    this.#pending.clear();
    this.#queueBytes = 0;
    this.#onFailure(cause);
  }
}

/** Rebuilds the error that ended the thread: an error of the table arrives as a plain Error with the same properties. */
function revived(error: Error): Error {
  const { code, details } = error as Error & { code?: string; details?: ErrorDetails };
  const isOurs = code !== undefined && Object.hasOwn(errorKinds, code) && details !== undefined;
  return isOurs ? new QuiverError(code as ErrorCode, error.message, details, { cause: error }) : error;
}
