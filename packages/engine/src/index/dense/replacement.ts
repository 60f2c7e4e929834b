// When are the serving graphs replaced, and by which ones?
//
//   the codes lose more than `codeLossMax`    `auto`: the next better type; otherwise, if a range clamps values: codes without it
//   more of the memory is free than used      a copy, and the memory of the current graphs is freed
//   a quarter of the vectors is new           a copy, in which nodes that are met together lie together (node-order.ts)
//
// Builders make a *successor* beside the graphs that serve searches, as soon as there is memory for it. It replaces them once it has
// all of their vectors; a copy has them at once.

import type { MaintenanceOptions, Sample, Vectors } from "./build-host.ts";
import type { CalibrationRequest } from "./calibrate.ts";
import type { HnswDataType } from "./code-types.ts";
import { Encoding } from "./encoding.ts";
import type { GraphSet } from "./graph-set.ts";
import { graphSetBytes } from "./memory.ts";
import type { Quality } from "./quality.ts";

/** What `auto` promises of the recall by its codes. */
const codeLossMax = 0.01;
/** The next type after one that loses too much: types below u8 hardly distinguish vectors that are close together. */
const better: Partial<Record<HnswDataType, HnswDataType>> = {
  binary: "u8",
  quaternary: "u8",
  octal: "u8",
  u8: "f16",
  f16: "f32",
};

/** Vectors that codes are calibrated by, at most. */
export const sampleMax = 10_000;

/** Which codes are to take the place of the present ones, and why. */
type Wanted = {
  readonly dataType: HnswDataType;
  readonly range: CalibrationRequest["range"];
  /** Why there are other graphs to be, and why of this type. */
  readonly notice: string;
  readonly reason: string;
};

/** The serving graphs, and a factory for others. */
export interface Predecessor {
  readonly current: GraphSet | undefined;
  readonly isCalibrating: boolean;
  /** Threads that search or build at a time. */
  readonly scratchCount: number;
  /** Learns an encoding from a sample, and calls with graphs by it that are empty. */
  calibrate(
    request: Pick<CalibrationRequest, "dataType" | "range" | "rows">,
    amend: (encoding: Encoding) => Encoding,
    then: (set: GraphSet) => void,
  ): void;
}

export class Replacement {
  readonly #options: MaintenanceOptions;
  readonly #vectors: Vectors;
  readonly #predecessor: Predecessor;
  #successor: GraphSet | undefined;
  /** Names that the successor lacks, because their records are about to go; undefined while it is being built. */
  #missing: Set<number> | undefined;
  /** The codes of the requested successor, while there is no memory for it. */
  #postponed: Wanted | undefined;
  #isPostponementReported = false;
  /** Bytes that the successor will take, from when it is decided on. */
  #successorBytes = 0;
  /** Vectors that had been linked or removed when the nodes were last ordered. */
  orderedWork = 0;
  /** The same when a copy failed. */
  #failedWork = Number.NEGATIVE_INFINITY;
  /** Copies that failed since the index was opened. */
  failedCopies = 0;

  constructor(options: MaintenanceOptions, vectors: Vectors, predecessor: Predecessor) {
    this.#options = options;
    this.#vectors = vectors;
    this.#predecessor = predecessor;
  }

  get successor(): GraphSet | undefined {
    return this.#successor;
  }

  /** Bytes that the successor will take beyond those that it has. */
  get reservedBytes(): number {
    return Math.max(0, this.#successorBytes - (this.#successor?.memoryBytes ?? 0));
  }

  /** Whether a successor waits for memory. */
  get isPostponed(): boolean {
    return this.#postponed !== undefined;
  }

  /** Whether the successor has all vector keys that it is to have, but for some that are about to go. */
  get isWaiting(): boolean {
    return this.#successor?.isIdle === true && !this.#missing?.size;
  }

  /** A vector key has no record any more. */
  remove(vectorKey: number): void {
    this.#successor?.remove(vectorKey);
    this.#missing?.delete(vectorKey);
  }

  /** Graphs were restored: the checkpoint does not contain a planned successor. */
  restore(quality: Quality, encoding: Encoding): void {
    this.#postponed = this.#wantedAfter(quality, encoding);
  }

  /** Reacts to the measurement of the serving graphs. Until better codes serve, the current ones are searched with a wider beam. */
  onMeasured(quality: Quality): void {
    const { current, isCalibrating } = this.#predecessor;
    if (current === undefined || this.#successor !== undefined || isCalibrating) return;
    const wanted = this.#wantedAfter(quality, current.encoding);
    if (wanted !== undefined) this.#succeed(wanted);
    // A longer beam loses less by the codes; the usual one decides.
    else if (quality.ef === this.#options.efSearch) this.#postponed = undefined;
  }

  /** The codes that are to take the place of the present ones, where those lose too much and there are any. */
  #wantedAfter({ codeLoss }: Quality, encoding: Encoding): Wanted | undefined {
    if (codeLoss <= codeLossMax) return undefined;
    const { dataType, range } = encoding.toState();
    const lossText = `codes of type ${dataType} lost ${codeLoss.toFixed(3)} of the exact results`;
    const next = better[dataType];
    if (this.#options.dataType === "auto" && next !== undefined) {
      const reason = `${lossText}, which is more than ${codeLossMax}`;
      return { dataType: next, range: range ?? undefined, notice: reason, reason };
    }
    if (range === null) return undefined;
    const reason = `${lossText}, because the range clamps values; the range is not applied`;
    return { dataType, range: undefined, notice: reason, reason };
  }

  /**
   * Decides on a copy of the graphs, where it is worth its time and there is memory for it.
   * @returns whether it did: then the caller makes the copy, and calls `copied`, or `endCopy` without one
   */
  beginCopy(work: number): boolean {
    const { current, scratchCount } = this.#predecessor;
    const { measures, mayTake, onNotice, orderedBytesMin } = this.#options;
    if (!measures || this.#postponed || this.#successor || !current || current.count === 0) return false;
    const isNewSince = (before: number): boolean => 4 * (work - before) >= current.count;
    // A copy that has failed is not tried again for the same vectors.
    if (!isNewSince(this.#failedWork)) return false;
    const isUnordered = current.graphBytes >= orderedBytesMin && isNewSince(this.orderedWork);
    const { isMostlyFree } = current;
    if (!isUnordered && !isMostlyFree) return false;
    const { dataType } = current.encoding.toState();
    const bytes = graphSetBytes({ ...this.#options, dataType, scratchCount }, current.count);
    if (mayTake?.(bytes) === false) return false;
    this.#successorBytes = bytes;
    if (isMostlyFree)
      onNotice?.("most of the graphs' memory is free after removals; they are copied to release it");
    return true;
  }

  /** The copy has replaced the graphs. @param work see `beginCopy` */
  copied(work: number): void {
    this.orderedWork = work;
    this.endCopy();
  }

  /** No copy is being made any more. */
  endCopy(): void {
    this.#successorBytes = 0;
  }

  /** A copy has failed. */
  copyFailed(work: number, error: unknown): void {
    this.#failedWork = work;
    this.failedCopies++;
    const reason = error instanceof Error ? error.message : String(error);
    this.#options.onNotice?.(
      `the graphs could not be copied in a better order, and go on as they are until a quarter of the vectors is new: ${reason}`,
    );
  }

  /** Requests graphs with other codes, which are built as soon as there is memory; logs once if there is none. */
  #succeed(wanted: Wanted): void {
    this.#postponed = wanted;
    if (this.goOn() || this.#isPostponementReported) return;
    this.#isPostponementReported = true;
    this.#options.onNotice?.(
      `${wanted.notice}; the memory budget has no room for graphs of type ${wanted.dataType} in addition to the current ones, which continue to serve until it has`,
    );
  }

  /** Starts a successor that waits for memory, if there is some now. */
  goOn(): boolean {
    const { mayTake, onNotice } = this.#options;
    const { current, isCalibrating, scratchCount } = this.#predecessor;
    const postponed = this.#postponed;
    if (!current || !postponed || this.#successor || isCalibrating) return false;
    const vectors = current.count + this.#vectors.waitingCount();
    const bytes = graphSetBytes({ ...this.#options, dataType: postponed.dataType, scratchCount }, vectors);
    if (mayTake?.(bytes) === false) return false;
    this.#postponed = undefined;
    this.#isPostponementReported = false;
    this.#successorBytes = bytes;
    onNotice?.(postponed.notice);
    this.#build(postponed);
    return true;
  }

  /** Builds graphs of other codes, which take the place of those that serve. */
  #build({ dataType, range, reason }: Wanted): void {
    const { vectors: rows }: Sample = this.#vectors.sample(sampleMax);
    const amend = (encoding: Encoding) => {
      const { clampedShare } = this.#predecessor.current?.encoding.toState() ?? {};
      return Encoding.fromState({ clampedShare, ...encoding.toState(), reason });
    };
    this.#predecessor.calibrate({ dataType, range, rows }, amend, (successor) => {
      const vectorKeys = [...(this.#predecessor.current?.vectorKeys() ?? []), ...this.#vectors.waiting()];
      for (const vectorKey of vectorKeys.sort((a, b) => a - b)) successor.enqueue(vectorKey);
      this.#successor = successor;
    });
  }

  /** The successor that can replace the current graphs, because it has all of their vector keys; it is released here. */
  takeOver(current: GraphSet): GraphSet | undefined {
    const successor = this.#successor;
    if (!successor?.isIdle || !current.isQuiet) return undefined;
    this.#missing ??= new Set(current.vectorKeys().filter((vectorKey) => !successor.has(vectorKey)));
    if (this.#missing.size > 0) return undefined;
    this.#missing = undefined;
    this.#successor = undefined;
    this.#successorBytes = 0;
    return successor;
  }

  /** Nothing is built any more. */
  abandon(): void {
    this.#successorBytes = 0;
  }

  close(): void {
    this.#successor?.close();
  }
}
