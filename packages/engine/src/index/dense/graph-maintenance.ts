// How does a dense index change in the background?
//
// Building calibrates codes when there is a sample, and hands jobs on graphs to builders. Two parts of it decide what else is to be
// done: recall-watch.ts measures what the graphs find and chooses the beam of searches, and replacement.ts has graphs of better codes
// built beside those that serve. This file has the jobs themselves. Both of these parts, and every change of the index, wait for
// them: so the jobs, and the counters by which everybody waits, are one class.

import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import type { MaintenanceOptions, Vectors } from "./build-host.ts";
import type { CalibrationRequest } from "./calibrate.ts";
import { Encoding } from "./encoding.ts";
import type { Graph } from "./graph.ts";
import type { GraphHost } from "./graph-jobs.ts";
import { GraphSet, type GraphSetState } from "./graph-set.ts";
import type { Quality } from "./quality.ts";
import { RecallWatch, type WatchState } from "./recall-watch.ts";
import { Replacement, sampleMax } from "./replacement.ts";
import type { GraphSetOptions } from "./set-shape.ts";
import { calibration, type GraphJob, graphJobs, siteOf, type Target } from "./tasks.ts";

/** What a checkpoint stores besides the images of graphs. */
export type MaintenanceState = GraphSetState &
  WatchState & {
    /** Vectors that had been linked or removed. */
    readonly work: number;
    /** The same when the nodes were last ordered; absent: never. */
    readonly orderedWork?: number;
  };

/** A requested checkpoint: exactly one of the two is called, once. */
type Save = {
  write(state: MaintenanceState, graphs: readonly Graph[], done: () => void): void;
  drop(): void;
};

/** A copy of the graphs that is being made. */
type Copying = {
  readonly current: GraphSet;
  /** Vectors that had been linked or removed when it began. */
  readonly work: number;
  /** Names that have no record any more since then. */
  readonly removed: number[];
  /** What is left to do when builders have copied. */
  steps: Steps<GraphSet> | undefined;
  copy: GraphSet | undefined;
};

export class GraphMaintenance {
  readonly #options: MaintenanceOptions;
  readonly #vectors: Vectors;
  readonly #setOptions: GraphSetOptions;
  readonly #watch: RecallWatch;
  /** What is built to take the place of the serving graphs. */
  readonly replacement: Replacement;
  #current: GraphSet | undefined;
  #running = 0;
  #turn = 0;
  #isPumping = false;
  #isTidying = false;
  #isCalibrating = false;
  #copying: Copying | undefined;
  #failure: unknown;
  #isClosed = false;
  #work = 0;
  /** Requested checkpoints that are still pending. */
  readonly #saves = new Set<Save>();

  constructor(options: MaintenanceOptions, vectors: Vectors) {
    this.#options = options;
    this.#vectors = vectors;
    const { m, m0, efConstruction, levelsMax, seed, memoryBytesMax, searchers, builders } = options;
    const scratchCount = searchers + (builders.isInPlace ? 0 : builders.width);
    this.#setOptions = { m, m0, efConstruction, levelsMax, seed, memoryBytesMax, scratchCount };
    const self = this;
    this.replacement = new Replacement(options, vectors, {
      get current() {
        return self.#current;
      },
      get isCalibrating() {
        return self.#isCalibrating;
      },
      scratchCount,
      calibrate: (request, amend, then) => this.#calibrate(request, amend, then),
    });
    this.#watch = new RecallWatch(options, vectors, {
      get current() {
        return self.#current;
      },
      get isBeingReplaced() {
        return self.#isCalibrating || self.#copying !== undefined || self.replacement.successor !== undefined;
      },
      get isClosed() {
        return self.#isClosed;
      },
      get work() {
        return self.#work;
      },
      onMeasured: (quality) => this.replacement.onMeasured(quality),
      onFailure: (error) => this.#fail(error),
    });
  }

  /** Restores graphs from a checkpoint. @param load writes the image of each, see Graph.image */
  async restore(state: MaintenanceState, load: (graphs: readonly Graph[]) => Promise<void>): Promise<void> {
    this.#current = await GraphSet.restored(state, this.#setOptions, this.#host(), load);
    this.#work = state.work;
    this.replacement.orderedWork = state.orderedWork ?? 0;
    this.#watch.restore(state);
    if (this.#options.measures && state.quality !== undefined)
      this.replacement.restore(state.quality, this.#current.encoding);
  }

  /** The graphs that serve; undefined while the sample is gathered. */
  get current(): GraphSet | undefined {
    return this.#current;
  }

  /** Why building has stopped, if it has. */
  get failure(): unknown {
    return this.#failure;
  }

  /** The latest measurement. */
  get quality(): Quality | undefined {
    return this.#watch.quality;
  }

  /** See `Beams.askCut`. */
  askCut(k: number, ef: number, recall: number): boolean {
    return this.#watch.askCut(k, ef, recall);
  }

  /** Minimum beam width of searches that set none. */
  get efFloor(): number {
    return this.#watch.efFloor;
  }

  /** Whether searches that name no beam read all vectors. */
  get isScanning(): boolean {
    return this.#watch.isScanning;
  }

  /** Vectors that were linked or removed since the index was made. */
  get work(): number {
    return this.#work;
  }

  /** Every vector key with a smaller ordinal is linked, or waits for the sample to be complete. */
  get linkedEnd(): number {
    if (this.#isCalibrating && this.#current === undefined) return 0;
    return this.#current?.linkedEnd ?? Number.POSITIVE_INFINITY;
  }

  /** Whether the graphs that serve from now on are in place, and their beam is measured. A few vectors may wait to be linked. */
  get isSettled(): boolean {
    return !this.#isCalibrating && this.replacement.successor === undefined && this.#watch.isSettled;
  }

  /** Whether nothing is queued, being done or being measured. */
  get isIdle(): boolean {
    const isBuilt = this.#running === 0 && (this.#current?.isIdle ?? true);
    return isBuilt && this.replacement.successor === undefined && !this.#watch.isMeasuring;
  }

  get memoryBytes(): number {
    return (this.#current?.memoryBytes ?? 0) + (this.replacement.successor?.memoryBytes ?? 0);
  }

  /** Threads that search or build at a time. */
  get scratchCount(): number {
    return this.#setOptions.scratchCount;
  }

  // ---- Adding and removing vector keys

  enqueue(vectorKey: number): void {
    this.#current?.enqueue(vectorKey);
    this.replacement.successor?.enqueue(vectorKey);
  }

  /** A vector key has no record any more. */
  remove(vectorKey: number): void {
    if (this.#current?.has(vectorKey)) this.#work++;
    this.#current?.remove(vectorKey);
    this.#copying?.removed.push(vectorKey);
    this.replacement.remove(vectorKey);
  }

  /**
   * Calls `write` with the checkpoint's state and graphs as soon as no builder is at work. The graphs do not change until `done` is
   * called; then building continues. Calls `drop` instead when no checkpoint is possible: before there is a graph, after building
   * has failed, or when the index is closed.
   */
  save(write: Save["write"], drop: Save["drop"]): void {
    const current = this.#current;
    if (this.#isClosed || this.#failure !== undefined || current === undefined) {
      drop();
      return;
    }
    const save = { write, drop };
    this.#saves.add(save);
    this.#hold(current, save);
    this.pump();
  }

  #hold(current: GraphSet, save: Save): void {
    current.hold(() => {
      this.#saves.delete(save);
      this.#running++;
      const { orderedWork } = this.replacement;
      const state = { ...current.state(), ...this.#watch.state(), work: this.#work, orderedWork };
      save.write(state, current.graphs, () => {
        this.#running--;
        invariant(this.#running >= 0, "a checkpoint of the graphs has ended twice");
        current.release();
        this.pump();
        // What was due meanwhile had to wait: nobody else looks again.
        this.#afterJob();
      });
    });
  }

  /** Ends what a thread that has died was doing in the scratch memory of this number. */
  abandon(number: number): void {
    this.#current?.abandon(number);
    this.replacement.successor?.abandon(number);
  }

  close(): void {
    this.#isClosed = true;
    this.#watch.close();
    this.#current?.close();
    this.#current = undefined;
    this.#copying = undefined;
    this.replacement.close();
    this.#drop();
  }

  // ---- Jobs

  /** Assigns jobs while builders are free and work is pending. */
  pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      this.#completeCopy();
      // A successor in place starts what was requested of the old graphs.
      do {
        while (!this.#isClosed && this.#failure === undefined && this.#running < this.#options.builders.width)
          if (!this.#start()) break;
      } while (this.#replace());
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#isPumping = false;
    }
    // In-place builders have no thread that would continue later.
    if (this.#isInPlace) this.#tidyAll();
  }

  #tidyAll(): void {
    if (this.#isTidying) return;
    this.#isTidying = true;
    while (this.tidy());
    this.#isTidying = false;
  }

  /** Continues deferred work; returns whether this thread has more to do. */
  tidy(): boolean {
    if (this.#isClosed || this.#failure !== undefined) return false;
    const wasDue = this.#watch.isDue;
    let hasBegun = false;
    try {
      this.replacement.goOn();
      hasBegun = this.#watch.begin();
      this.#watch.goOn();
    } catch (error) {
      this.#fail(error);
    }
    if (this.isIdle && !this.#isInPlace) this.#current?.tidy();
    if (this.isIdle && this.replacement.beginCopy(this.#work)) this.#copyInOrder();
    this.pump();
    if (this.#watch.hasSteps || this.#copying?.steps !== undefined) return true;
    // The build has gone on, and perhaps ended, while it was measured, or copied graphs serve. What was due and could not begin waits.
    if (!wasDue && this.#watch.isDue) return true;
    return this.#isInPlace && hasBegun;
  }

  get #isInPlace(): boolean {
    return this.#options.builders.isInPlace;
  }

  /** Starts the next job; a successor gets two of three, so that it is completed even while records are added. */
  #start(): boolean {
    const [current, { successor }] = [this.#current, this.replacement];
    if (current === undefined) return this.#calibrateFirst();
    if (successor === undefined) return current.start();
    // It replaces the other graphs as soon as no builder works on them.
    if (this.replacement.isWaiting) return false;
    if (this.#turn++ % 3 === 0) return current.start() || successor.start();
    return successor.start() || current.start();
  }

  /** What a set of graphs needs from this index; only the serving set changes where vectors are stored. */
  #host(isServing: () => boolean = () => true): GraphHost {
    const { builders } = this.#options;
    return {
      run: (target, job, done) =>
        this.#run(target, job, (error) => {
          if (error !== null) throw error;
          done();
        }),
      attempt: (target, job, done) => this.#run(target, job, done),
      forget: (id) => builders.forget(id),
      retire: this.#options.retire,
      vectorOf: (vectorKey) => this.#vectors.vectorOf(vectorKey),
      onLinked: (vectorKey) => {
        if (!isServing()) return;
        this.#work++;
        this.#watch.onLinked(vectorKey);
        this.#vectors.onLinked(vectorKey);
      },
    };
  }

  /** Runs a job. @param done its outcome; building fails with what it throws */
  #run(target: Target, job: GraphJob, done: (error: unknown) => void): void {
    this.#running++;
    this.#watch.onWork();
    const finish = (error: unknown) => {
      this.#running--;
      if (this.#isClosed) return;
      try {
        done(error);
      } catch (failure) {
        this.#fail(failure);
      }
      this.pump();
      this.#afterJob();
    };
    this.#options.builders.run(graphJobs, job, finish, siteOf(target));
  }

  /** A builder has done something: perhaps it is time to measure, or to sweep. */
  #afterJob(): void {
    const { onMore, onProgress } = this.#options;
    if (!this.#isInPlace) {
      this.#watch.awaitQuiet();
      if ((this.#watch.isDue || this.isIdle) && this.tidy()) onMore?.();
    }
    onProgress?.();
  }

  // ---- Codes

  #calibrateFirst(): boolean {
    const { sampleCount, dataType, range } = this.#options;
    if (this.#isCalibrating || this.#vectors.waitingCount() < sampleCount) return false;
    const waiting = this.#vectors.waiting();
    const count = Math.min(waiting.length, sampleMax);
    const rows = this.#rowsOf(
      Array.from({ length: count }, (_, i) => waiting[Math.floor((i * waiting.length) / count)]),
    );
    const asIs = (encoding: Encoding) => encoding;
    this.#calibrate({ dataType, range, rows }, asIs, (set) => {
      this.#current = set;
      for (const vectorKey of this.#vectors.waiting()) set.enqueue(vectorKey);
    });
    return true;
  }

  #rowsOf(vectorKeys: readonly number[]): Float32Array {
    const { dimension } = this.#options;
    const rows = new Float32Array(vectorKeys.length * dimension);
    vectorKeys.forEach((vectorKey, i) => {
      rows.set(this.#vectors.vectorOf(vectorKey) as Float32Array, i * dimension);
    });
    return rows;
  }

  #calibrate(
    request: Pick<CalibrationRequest, "dataType" | "range" | "rows">,
    amend: (encoding: Encoding) => Encoding,
    then: (set: GraphSet) => void,
  ): void {
    const { metric, dimension, seed, builders } = this.#options;
    invariant(!this.#isCalibrating, "codes are calibrated while others are");
    this.#isCalibrating = true;
    this.#running++;
    builders.run(calibration, { ...request, metric, dimension, seed }, (error, state) => {
      this.#running--;
      this.#isCalibrating = false;
      if (this.#isClosed) return;
      try {
        if (state === null) throw error;
        const encoding = amend(Encoding.fromState(state));
        const host = this.#host(() => this.#current === set);
        const set: GraphSet = new GraphSet(encoding, this.#setOptions, host);
        then(set);
      } catch (failure) {
        this.#fail(failure);
      }
      this.pump();
    });
  }

  /** Puts the successor in place when it has all vector keys that the serving graphs have. @returns whether it did */
  #replace(): boolean {
    const current = this.#current;
    const successor = current && !this.#isClosed ? this.replacement.takeOver(current) : undefined;
    if (current === undefined || successor === undefined) return false;
    this.#serveBy(successor, current);
    for (const vectorKey of this.#vectors.waiting())
      if (successor.has(vectorKey)) this.#vectors.onLinked(vectorKey);
    this.#watch.reset();
    return true;
  }

  #serveBy(set: GraphSet, before: GraphSet): void {
    invariant(set !== before && this.#current === before, "graphs are replaced that do not serve");
    this.#current = set;
    before.close();
    // The holds of the old graphs ended with them.
    for (const save of this.#saves) this.#hold(set, save);
  }

  /** Begins to replace the graphs by a copy in a better order, which finds the same. Without it all goes on as it is. */
  #copyInOrder(): void {
    const current = this.#current;
    invariant(current !== undefined && this.#copying === undefined, "graphs are copied twice");
    const copying: Copying = { current, work: this.#work, removed: [], steps: undefined, copy: undefined };
    this.#copying = copying;
    const host = this.#host(() => this.#current === copying.copy);
    current.copyInOrder(this.#setOptions, host, (made) => {
      if (made === null) this.#endCopy(copying);
      else if ("error" in made) this.#giveUpCopy(copying, made.error);
      else copying.steps = made.steps;
      if (!this.#isInPlace) this.#options.onMore?.();
    });
  }

  /** Continues to complete the copy, by one step. It goes on with `tidy`, and with every change of the index, which waits for it. */
  #completeCopy(): void {
    const copying = this.#copying;
    if (copying?.steps === undefined) return;
    const { current, work, removed } = copying;
    try {
      const step = copying.steps.next();
      if (!step.done) return;
      const copy = step.value;
      copying.copy = copy;
      for (const vectorKey of removed) if (copy.has(vectorKey)) copy.remove(vectorKey);
      for (const vectorKey of this.#vectors.waiting()) copy.enqueue(vectorKey);
      this.#copying = undefined;
      this.replacement.copied(work);
      this.#serveBy(copy, current);
    } catch (error) {
      this.#giveUpCopy(copying, error);
    }
  }

  #giveUpCopy(copying: Copying, error: unknown): void {
    this.replacement.copyFailed(copying.work, error);
    this.#endCopy(copying);
  }

  /** The graphs go on as they are. */
  #endCopy({ current }: Copying): void {
    this.#copying = undefined;
    this.replacement.endCopy();
    current.release();
  }

  /** Building stops here. Vectors that are in no graph are scanned, so every result remains correct. */
  #fail(error: unknown): void {
    if (this.#failure === undefined) this.#failure = error;
    this.replacement.abandon();
    this.#drop();
    this.#options.onError?.(error);
  }

  #drop(): void {
    for (const { drop } of this.#saves) drop();
    this.#saves.clear();
  }
}
