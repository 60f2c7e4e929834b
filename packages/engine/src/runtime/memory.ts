// How much memory is taken, and may somebody take more?
//
// Two things are counted, and each has its bound:
//
//   indexes    what the indexes of loaded collections say of themselves (what is written of typed arrays and WebAssembly memories),
//              what they are expected to take more when all records are in their final places, and what writes that are under way
//              are expected to add: the budget
//   process    memory that belongs to this process alone and that the system cannot take back (Linux: RssAnon + RssShmem; elsewhere
//              the resident set): heaps of all threads, buffers, WebAssembly memories, what is free and not given back yet. The
//              stores' files are mapped, and not in it. Counted from the opening of the database on, for the process may be another
//              program that embeds it: the budget and `processBytesBeside`
//
// Whoever is to take more asks `admit`. Where it does not fit, indexes give up their caches, idle collections are unloaded, and the
// garbage is collected; where it still does not, it is refused before anything has changed. The system would end the whole process instead.

import { readFileSync } from "node:fs";
import { QuiverError } from "@quiver/protocol/errors";

/** What the program takes beside indexes: code, heaps and stacks of its threads, requests, answers and garbage. */
export const processBytesBeside = 512 * 1024 * 1024;

/** Memory is measured no more often, in milliseconds: the system's answer takes some 50 microseconds, and collections can be thousands. */
const measureEveryMs = 50;
/** What takes so many bytes is measured anew at once when it is done. */
const muchBytes = 1024 * 1024;
/** After room could not be made garbage is not collected in vain again for so long: a full collection holds the thread. */
const makeRoomEveryMs = 2_000;

/** Bytes of memory that only this process uses and that the system cannot take back. */
export function processBytes(): number {
  if (process.platform !== "linux") return process.memoryUsage.rss();
  const status = readFileSync("/proc/self/status", "utf8");
  const of = (name: string) =>
    1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? 0);
  return of("RssAnon") + of("RssShmem");
}

export type MemoryParts = {
  /** Bytes that indexes may take; undefined: no limit. */
  readonly budgetBytes: number | undefined;
  /** Bytes that indexes take, or will when they are built. */
  indexBytes(): number;
  /**
   * Makes caches smaller and idle collections leave until so many bytes of indexes are there at most; resolves when what they took is free.
   * @param isAgain whether it was in vain a moment ago: where nothing can leave, there is no use in collecting garbage
   */
  makeRoom(indexBytesMax: number, isAgain: boolean): Promise<void>;
  /** Default: `processBytes`. */
  readonly processBytes?: () => number;
};

/** What somebody is about to take. */
export type Wish = {
  /** For the message: `loading the collection 'a'`. */
  readonly what: string;
  /** Bytes that indexes will take. */
  readonly indexBytes: number;
  /** Bytes that are taken besides while it is done. */
  readonly passingBytes?: number;
};

export class MemoryBudget {
  readonly #parts: MemoryParts;
  readonly #processBytes: () => number;
  /** What has been admitted and is not in any index yet. */
  #reserved = 0;
  /** Of that, what is done: it counts until the indexes are measured again. */
  #done = 0;
  /** What the process had when the database was opened. */
  readonly #before: number;
  #process = 0;
  #indexes = 0;
  #measuredMs = Number.NEGATIVE_INFINITY;
  #triedMs = Number.NEGATIVE_INFINITY;

  constructor(parts: MemoryParts) {
    this.#parts = parts;
    this.#processBytes = parts.processBytes ?? processBytes;
    this.#before = this.#processBytes();
  }

  get isLimited(): boolean {
    return this.#parts.budgetBytes !== undefined;
  }

  /** Bytes of indexes, of those that are being built, and of writes under way. */
  get indexBytes(): number {
    this.#measure();
    return this.#indexes + this.#reserved;
  }

  /** The process' own memory, as of the last twentieth of a second, since the database was opened. */
  get processBytes(): number {
    this.#measure();
    return this.#process;
  }

  /** Indexes have come or gone: what was measured counts no more. */
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

  /** Whether so many bytes of indexes fit without anybody leaving. */
  fits({ indexBytes, passingBytes = 0 }: Omit<Wish, "what">): boolean {
    const { budgetBytes } = this.#parts;
    if (budgetBytes === undefined) return true;
    return (
      this.indexBytes + indexBytes <= budgetBytes &&
      this.processBytes + indexBytes + passingBytes <= budgetBytes + processBytesBeside
    );
  }

  /** Whether so many bytes may be taken that an index can do without, and a sixteenth of the budget is left for what must be. */
  leavesRoom(bytes: number): boolean {
    const { budgetBytes } = this.#parts;
    if (budgetBytes === undefined) return true;
    const leaves = this.fits({ indexBytes: bytes + budgetBytes / 16 });
    // Who asks takes it, and asks again soon.
    if (leaves) this.changed();
    return leaves;
  }

  /**
   * Waits until it fits, where idle collections can make room.
   * @returns to be called when the bytes are in an index, or will not be
   * @throws memory_budget_exceeded
   */
  async admit(wish: Wish): Promise<() => void> {
    if (!this.isLimited) return () => {};
    if (!this.fits(wish)) await this.#makeRoom(wish);
    if (!this.fits(wish)) throw this.#refusal(wish);
    this.#reserved += wish.indexBytes;
    let isHeld = true;
    return () => {
      if (isHeld) this.#done += wish.indexBytes;
      isHeld = false;
      if (wish.indexBytes >= muchBytes) this.changed();
    };
  }

  async #makeRoom({ indexBytes }: Wish): Promise<void> {
    const nowMs = performance.now();
    const budget = this.#parts.budgetBytes as number;
    // What alone exceeds the budget makes nobody leave.
    if (indexBytes > budget) return;
    await this.#parts.makeRoom(budget - indexBytes - this.#reserved, nowMs - this.#triedMs < makeRoomEveryMs);
    this.changed();
    this.#triedMs = this.fits({ indexBytes }) ? Number.NEGATIVE_INFINITY : performance.now();
  }

  #refusal({ what, indexBytes, passingBytes = 0 }: Wish): QuiverError {
    const budget = this.#parts.budgetBytes as number;
    const figures = {
      scope: "process",
      needed_bytes: indexBytes + passingBytes,
      budget_bytes: budget,
      index_bytes: this.indexBytes,
      process_bytes: this.processBytes,
    };
    return new QuiverError(
      "memory_budget_exceeded",
      `${what} needs about ${mib(indexBytes + passingBytes)}; the memory budget is ${mib(budget)}, of which indexes take ` +
        `${mib(figures.index_bytes)}, and the process has taken ${mib(figures.process_bytes)} since the database was opened. Nothing was changed. ` +
        "Unload or delete a collection, delete an index, or give the process a larger budget.",
      figures,
    );
  }
}

/** Bytes for people: `12.5 MiB`. */
export const mib = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
