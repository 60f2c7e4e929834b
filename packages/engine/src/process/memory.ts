// How much memory is in use, and is there enough for a new reservation?
//
// There are two counts, each with its own limit:
//
//   indexes    limit: the budget. The sum of what the indexes of loaded collections report (the written part of typed arrays and
//              WebAssembly memories), their expected growth until all records are in their final places, and the expected growth by
//              writes that are under way.
//   process    limit: the budget plus `besideBytes`. Memory that only this process uses and that the system cannot reclaim (Linux:
//              RssAnon + RssShmem; elsewhere the resident set): heaps of all threads, buffers, WebAssembly memories, and free memory that
//              is not returned yet. The mapped files of stores do not count. The count starts when the database opens, because the
//              process may be another program that embeds it.
//
// Code that is about to take much memory calls `admit` with a reservation. If it does not fit, indexes drop their caches, idle
// collections are unloaded, and the garbage is collected. If it still does not fit, `admit` refuses it before anything has
// changed. Without this the system would kill the whole process.

import { readFileSync } from "node:fs";
import { QuiverError } from "@quiverdb/protocol/errors";

/** Memory for everything except indexes: code, heaps and stacks of the threads, requests, responses and garbage. */
export const processBytesBeside = 512 * 1024 * 1024;

/** The same for each serving thread: its heap, and its copies of what it searches with. */
export const processBytesPerThread = 128 * 1024 * 1024;

/** Least time between two measurements, in milliseconds. The system call takes some 50 microseconds, and there can be thousands of collections. */
const measureEveryMs = 50;
/** When a reservation of this size ends, memory is measured again at once. */
const largeReservationBytes = 1024 * 1024;
/** After an attempt to free memory failed, no garbage collection for this long: a full one blocks the thread. */
const freeMemoryEveryMs = 2_000;

/** Bytes of memory that only this process uses and that the system cannot take back. */
export function processBytes(): number {
  if (process.platform !== "linux") return process.memoryUsage.rss();
  const status = readFileSync("/proc/self/status", "utf8");
  const of = (name: string) =>
    1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? 0);
  return of("RssAnon") + of("RssShmem");
}

export type MemoryParts = {
  /** Bytes that indexes may take; undefined for no limit. */
  readonly budgetBytes: number | undefined;
  /** Bytes that indexes take, including their expected growth until they are built. */
  indexBytes(): number;
  /**
   * Shrinks caches and unloads idle collections until indexes take at most this many bytes. Resolves when their memory is free.
   * @param isAgain whether an attempt failed a moment ago: then garbage is collected only if something was unloaded
   */
  freeMemory(indexBytesMax: number, isAgain: boolean): Promise<void>;
  /** Bytes that the process may take beside the budget. Default: `processBytesBeside`. */
  readonly besideBytes?: number;
  /** Default: `processBytes`. */
  readonly processBytes?: () => number;
};

/** Memory that an operation is about to take. */
export type Reservation = {
  /** The operation, for the error message: `loading the collection 'a'`. */
  readonly what: string;
  /** Bytes that stay in indexes. */
  readonly indexBytes: number;
  /** Further bytes that are in use only during the operation. */
  readonly transientBytes?: number;
};

export class MemoryBudget {
  readonly #parts: MemoryParts;
  readonly #processBytes: () => number;
  readonly #besideBytes: number;
  /** Bytes that were admitted and that no measurement of the indexes contains yet. */
  #reserved = 0;
  /** The part of `#reserved` whose operations have ended. It stays reserved until the indexes are measured again. */
  #done = 0;
  /** Bytes of the process when the database was opened. */
  readonly #before: number;
  #process = 0;
  #indexes = 0;
  #measuredMs = Number.NEGATIVE_INFINITY;
  #triedMs = Number.NEGATIVE_INFINITY;

  constructor(parts: MemoryParts) {
    this.#parts = parts;
    this.#processBytes = parts.processBytes ?? processBytes;
    this.#besideBytes = parts.besideBytes ?? processBytesBeside;
    this.#before = this.#processBytes();
  }

  get isLimited(): boolean {
    return this.#parts.budgetBytes !== undefined;
  }

  /** Bytes of indexes, of their expected growth, and of reservations. */
  get indexBytes(): number {
    this.#measure();
    return this.#indexes + this.#reserved;
  }

  /** Bytes by which the memory of the process has grown since the database was opened; at most 50 ms old. */
  get processBytes(): number {
    this.#measure();
    return this.#process;
  }

  /** Invalidates the last measurement, because indexes were added or removed. */
  changed(): void {
    this.#measuredMs = Number.NEGATIVE_INFINITY;
  }

  #measure(): void {
    const nowMs = performance.now();
    if (nowMs - this.#measuredMs < measureEveryMs) return;
    this.#measuredMs = nowMs;
    this.#process = Math.max(0, this.#processBytes() - this.#before);
    this.#indexes = this.#parts.indexBytes();
    this.#reserved -= this.#done;
    this.#done = 0;
  }

  /** Whether a reservation fits without unloading anything. */
  fits({ indexBytes, transientBytes = 0 }: Omit<Reservation, "what">): boolean {
    const { budgetBytes } = this.#parts;
    if (budgetBytes === undefined) return true;
    return (
      this.indexBytes + indexBytes <= budgetBytes &&
      this.processBytes + indexBytes + transientBytes <= budgetBytes + this.#besideBytes
    );
  }

  /** Whether an index may take optional memory, for example a cache: at least a sixteenth of the budget must remain free. */
  hasSpare(bytes: number): boolean {
    const { budgetBytes } = this.#parts;
    if (budgetBytes === undefined) return true;
    const leaves = this.fits({ indexBytes: bytes + budgetBytes / 16 });
    // The caller takes the memory now and asks again soon, so measure again.
    if (leaves) this.changed();
    return leaves;
  }

  /**
   * Reserves memory. If it does not fit, waits while idle collections are unloaded.
   * @returns a function that ends the reservation: call it when the bytes are in an index, or will not be needed
   * @throws memory_budget_exceeded
   */
  async admit(reservation: Reservation): Promise<() => void> {
    if (!this.isLimited) return () => {};
    if (!this.fits(reservation)) await this.#freeMemory(reservation);
    if (!this.fits(reservation)) throw this.#refusal(reservation);
    this.#reserved += reservation.indexBytes;
    let isHeld = true;
    return () => {
      if (isHeld) this.#done += reservation.indexBytes;
      isHeld = false;
      if (reservation.indexBytes >= largeReservationBytes) this.changed();
    };
  }

  async #freeMemory({ indexBytes }: Reservation): Promise<void> {
    const nowMs = performance.now();
    const budget = this.#parts.budgetBytes as number;
    // A reservation that alone exceeds the budget never fits, so nothing is unloaded for it.
    if (indexBytes > budget) return;
    await this.#parts.freeMemory(
      budget - indexBytes - this.#reserved,
      nowMs - this.#triedMs < freeMemoryEveryMs,
    );
    this.changed();
    this.#triedMs = this.fits({ indexBytes }) ? Number.NEGATIVE_INFINITY : performance.now();
  }

  #refusal({ what, indexBytes, transientBytes = 0 }: Reservation): QuiverError {
    const budget = this.#parts.budgetBytes as number;
    const figures = {
      scope: "process",
      needed_bytes: indexBytes + transientBytes,
      budget_bytes: budget,
      index_bytes: this.indexBytes,
      process_bytes: this.processBytes,
    };
    return new QuiverError(
      "memory_budget_exceeded",
      `${what} needs about ${mib(indexBytes + transientBytes)}; the memory budget is ${mib(budget)}, of which indexes take ` +
        `${mib(figures.index_bytes)}, and the process has taken ${mib(figures.process_bytes)} since the database was opened. Nothing was changed. ` +
        "Unload or delete a collection, delete an index, or give the process a larger budget.",
      figures,
    );
  }
}

/** Bytes as text for users: `12.5 MiB`. */
export const mib = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
