// What is built, measured and replaced?
//
// The side of a dense index that changes in the background: it calibrates codes when there is a sample, hands jobs on graphs to
// builders, measures what the graphs find (quality.ts), and acts on it:
//
//   the codes lose more than `codeLossMax`    `auto`: the next better type; else, a range that cuts values off: codes without it.
//                                             A *successor* is built with those, beside the graphs that serve, and takes their place
//   more of the memory is free than used      a successor with the same codes is built, and the memory of the present graphs given back
//   recall is too low, or vectors are not     searches that name no beam take a longer one; where none is long enough that costs
//   found by themselves (`wantedOf`)          less than reading all, they read all
//
// Recall is measured when the graphs have been built, and each time a tenth of them has changed; during a long build when they have doubled.

import type { MetricName } from "@quiver/protocol/shapes/index-definition";
import type { Candidates } from "../contract.ts";
import type { CalibrationRequest } from "./calibrate.ts";
import { Encoding, type HnswDataType } from "./encoding.ts";
import type { SteppedSearch } from "./exact-search.ts";
import type { Graph } from "./graph.ts";
import { efMax, type GraphHost, GraphSet, type GraphSetOptions, type GraphSetState } from "./graph-set.ts";
import { type GraphBuilders, type GraphJob, InPlaceBuilders, type Target } from "./jobs.ts";
import { graphSetBytes } from "./memory.ts";
import {
  type Measured,
  type Quality,
  QualityCheck,
  type Question,
  qualityDepth,
  sampleSize,
} from "./quality.ts";
import type { TruthRequest } from "./truth.ts";

export type BuildingOptions = Omit<GraphSetOptions, "areas"> & {
  readonly dimension: number;
  readonly metric: MetricName;
  readonly dataType: HnswDataType | "auto";
  readonly range?: { readonly min: number; readonly max: number } | undefined;
  readonly sampleCount: number;
  readonly searchers: number;
  readonly builders: GraphBuilders;
  readonly efSearch: number;
  readonly measures: boolean;
  /** Whether so many bytes more may be taken; default: always. */
  readonly mayTake?: ((bytes: number) => boolean) | undefined;
  readonly onError?: ((error: unknown) => void) | undefined;
  readonly onProgress?: (() => void) | undefined;
  readonly onMore?: (() => void) | undefined;
  readonly onNotice?: ((notice: string) => void) | undefined;
};

/** The vectors of the index, by name. */
export interface Vectors {
  /** Vectors that no graph has, ascending. */
  waiting(): number[];
  waitingCount(): number;
  /** Borrowed until the next call; undefined where the name has no record any more, or its vector cannot be read. */
  vectorOf(name: number): Float32Array | undefined;
  /** The graphs that serve have a name now. */
  onLinked(name: number): void;
  /** Some names of the graphs, evenly drawn, with their vectors: new arrays. */
  sample(count: number, fresh?: readonly number[]): { names: number[]; vectors: Float32Array };
  /** All linked vectors, where they are in memory; undefined where they are not. */
  shared(): TruthRequest["rows"] | undefined;
  /** Begins an exact search for names; undefined where vectors cannot be read. */
  beginTruth(queries: readonly Float32Array[], k: number): SteppedSearch | undefined;
  /** Asks the graphs one question. */
  ask(question: Question, ef: number, isNew: (name: number) => boolean): Measured;
}

/** Which codes are to take the place of the present ones, and why. */
type Succession = {
  readonly dataType: HnswDataType;
  readonly range: CalibrationRequest["range"];
  /** Why there are other graphs to be, and why of this type. */
  readonly notice: string;
  readonly reason: string;
};

type Sample = ReturnType<Vectors["sample"]>;

/** What a checkpoint keeps besides the images of graphs. */
export type BuildingState = GraphSetState & {
  /** Vectors that had been linked or removed. */
  readonly work: number;
  readonly quality: Quality | undefined;
  readonly efFloor: number;
  readonly isScanning: boolean;
};

/** Vectors that codes are calibrated by, at most. */
const sampleMax = 10_000;

/** What `auto` promises of the recall by its codes. */
const codeLossMax = 0.01;
/** Which type follows one that loses more: what is below u8 shows little of vectors that lie close together. */
const better: Partial<Record<HnswDataType, HnswDataType>> = {
  binary: "u8",
  quaternay: "u8",
  octal: "u8",
  u8: "f16",
  f16: "f32",
};

/**
 * Below this share of exact answers, or of vectors that find themselves, something is done: by the number of vectors, for in few a longer
 * beam costs little.
 */
const wantedOf = (count: number): { recall: number; itself: number } => {
  if (count <= 10_000) return { recall: 0.999, itself: 0.999 };
  if (count <= 50_000) return { recall: 0.99, itself: 0.99 };
  return { recall: count <= 200_000 ? 0.985 : 0.95, itself: 0.99 };
};
/** Following the links of a beam costs about as much as reading so many vectors in order for each of its places. */
export const readsPerBeamPlace = 8;

/** Share of the vectors whose change asks for a new measurement. */
const changeShare = 0.1;
/** While builders are at work, the end of which asks for one anyhow: with a tenth, measuring took as long as building. */
const changeShareInBuild = 1;
/** Any change does when nothing has come for so long, and for so many times as the last measurement took: a twentieth of a core at most. */
const quietMs = 500;
const quietTimes = 20;
/** Then few questions are enough: a part of the sample. */
const smallSampleShare = 0.25;
/** Names linked since the last measurement that are remembered: half of those that are asked are of them. */
const freshMax = 1_000;
/** Before the first measurement, so many vectors do not wait for the build to end. */
const firstCheckCount = 10_000;
/** Fewer vectors say nothing. */
const checkMin = 100;
/** A part of the sample is asked where the vectors of the index have to be read from the store, by this thread. */
const sampleShareWithoutCache = 0.25;
/** Questions asked between two looks at the clock, by the places of their beams. */
const questionsPerStep = (ef: number): number => Math.max(1, Math.floor(512 / ef));

export class Building {
  readonly #options: BuildingOptions;
  readonly #vectors: Vectors;
  readonly #setOptions: GraphSetOptions;
  #current: GraphSet | undefined;
  #successor: GraphSet | undefined;
  /** Names that the successor lacks, because their records are about to go; undefined while it is being built. */
  #missing: Set<number> | undefined;
  /** Codes that are wanted in place of the present ones, while there is no memory for a successor. */
  #postponed: Succession | undefined;
  #isPostponementTold = false;
  /** Bytes that the successor will take, from when it is decided on. */
  #successorBytes = 0;
  #running = 0;
  #turn = 0;
  #isPumping = false;
  #isTidying = false;
  #isCalibrating = false;
  #failure: unknown;
  #isClosed = false;
  #work = 0;
  /** What had been linked or removed when lonely vectors were reconnected. */
  #reconnectedWork = -1;
  /** Whether nothing has been done for a while. */
  #isQuiet = false;
  #quietTimer: NodeJS.Timeout | undefined;
  #checkBeganMs = 0;
  /** How long the last measurement took. */
  #checkMs = 0;
  /** Of the measurement that is being made: vectors in the graphs and what had been linked or removed when it began, and names linked since. */
  #checkCount = 0;
  #checkWork = 0;
  readonly #linkedSince = new Set<number>();
  /** Names that were linked since recall was measured last. */
  readonly #fresh: number[] = [];
  /** Whether builders were at work when recall was measured last. */
  #isBuildMeasured = false;
  #quality: Quality | undefined;
  #efFloor = 0;
  #isScanning = false;
  /** Exact answers that are being found, by a builder (`null`) or in this thread. */
  #truth: { search: SteppedSearch; sample: Sample } | null | undefined;
  #check: QualityCheck | undefined;
  /** What is to be told when a checkpoint that was asked for cannot be handed out. */
  readonly #drops = new Set<() => void>();

  constructor(options: BuildingOptions, vectors: Vectors) {
    this.#options = options;
    this.#vectors = vectors;
    const { m, m0, efConstruction, levelsMax, seed, memoryBytesMax, searchers, builders } = options;
    const areas = searchers + (builders instanceof InPlaceBuilders ? 0 : builders.width);
    this.#setOptions = { m, m0, efConstruction, levelsMax, seed, memoryBytesMax, areas };
  }

  /** Takes over graphs as they were kept. @param load writes the image of each, see Graph.image */
  async restore(state: BuildingState, load: (graphs: readonly Graph[]) => Promise<void>): Promise<void> {
    this.#current = await GraphSet.restored(state, this.#setOptions, this.#host(), load);
    this.#work = state.work;
    this.#quality = state.quality;
    this.#efFloor = state.efFloor;
    this.#isScanning = state.isScanning;
    // A successor that was wanted is not kept.
    if (this.#options.measures && state.quality !== undefined)
      this.#postponed = this.#wanted(state.quality, this.#current.encoding);
  }

  /** The graphs that serve; undefined while the sample is gathered. */
  get current(): GraphSet | undefined {
    return this.#current;
  }

  /** Why building has stopped, if it has. */
  get failure(): unknown {
    return this.#failure;
  }

  /** What was measured last. */
  get quality(): Quality | undefined {
    return this.#quality;
  }

  /** Searches that name no beam take this one at least. */
  get efFloor(): number {
    return this.#efFloor;
  }

  /**
   * Whether searches that name no beam read all vectors: because no beam finds enough, or because nobody knows yet what beams find. Of
   * many vectors that would take too long, and most graphs of many find enough.
   */
  get isScanning(): boolean {
    if (this.#isScanning) return true;
    const count = this.#current?.count ?? 0;
    return (
      this.#options.measures && this.#quality === undefined && count >= checkMin && count <= firstCheckCount
    );
  }

  /** The type of the codes that are to take the place of the present ones. */
  get successorType(): HnswDataType | undefined {
    return this.#successor?.encoding.dataType;
  }

  /** Vectors that were linked or removed since the index was made. */
  get work(): number {
    return this.#work;
  }

  /** Every name with a smaller ordinal is linked, or waits for the sample to be complete. */
  get linkedEnd(): number {
    if (this.#isCalibrating && this.#current === undefined) return 0;
    return this.#current?.linkedEnd ?? Number.POSITIVE_INFINITY;
  }

  /** Whether nothing is queued, being done or being measured. */
  get isIdle(): boolean {
    const isBuilt = this.#running === 0 && (this.#current?.isIdle ?? true);
    return isBuilt && this.#successor === undefined && !this.#isMeasuring;
  }

  get memoryBytes(): number {
    return (this.#current?.memoryBytes ?? 0) + (this.#successor?.memoryBytes ?? 0);
  }

  /** Threads that search or build at a time. */
  get areas(): number {
    return this.#setOptions.areas;
  }

  /** Bytes that the successor will take beyond those that it has. */
  get reservedBytes(): number {
    return Math.max(0, this.#successorBytes - (this.#successor?.memoryBytes ?? 0));
  }

  /** Whether a successor waits for memory. */
  get isPostponed(): boolean {
    return this.#postponed !== undefined;
  }

  // ---- Names come and go

  enqueue(name: number): void {
    this.#current?.enqueue(name);
    this.#successor?.enqueue(name);
  }

  /** A name has no record any more. */
  remove(name: number): void {
    if (this.#current?.has(name)) this.#work++;
    this.#current?.remove(name);
    this.#successor?.remove(name);
    this.#missing?.delete(name);
  }

  /**
   * Hands out what a checkpoint keeps, as soon as no builder is at work. The graphs do not change until `done` is called; then
   * building goes on. `drop` is called instead when nothing can be handed out: before there is a graph, after building has
   * failed, or when the index is closed.
   */
  save(
    keep: (state: BuildingState, graphs: readonly Graph[], done: () => void) => void,
    drop: () => void,
  ): void {
    const current = this.#current;
    if (this.#isClosed || this.#failure !== undefined || current === undefined) {
      drop();
      return;
    }
    this.#drops.add(drop);
    current.hold(() => {
      this.#drops.delete(drop);
      this.#running++;
      const state = {
        ...current.state(),
        work: this.#work,
        quality: this.#quality,
        efFloor: this.#efFloor,
        isScanning: this.#isScanning,
      };
      keep(state, current.graphs, () => {
        this.#running--;
        current.release();
        this.pump();
      });
    });
    this.pump();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#quietTimer);
    this.#truth?.search.end();
    this.#truth = undefined;
    this.#check = undefined;
    this.#current?.close();
    this.#successor?.close();
    this.#drop();
  }

  // ---- Jobs

  /** Hands out jobs while builders are free and there is something to do. */
  pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      while (!this.#isClosed && this.#failure === undefined && this.#running < this.#options.builders.width)
        if (!this.#start()) break;
      this.#replace();
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#isPumping = false;
    }
    // In place there is nobody who would go on later.
    if (this.#isInPlace) this.#tidyAll();
  }

  #tidyAll(): void {
    if (this.#isTidying) return;
    this.#isTidying = true;
    while (this.tidy());
    this.#isTidying = false;
  }

  /** Goes on with what can wait; returns whether there is more that this thread has to do. */
  tidy(): boolean {
    if (this.#isClosed || this.#failure !== undefined) return false;
    let hasBegun = false;
    try {
      this.#goOnSucceeding();
      hasBegun = this.#beginCheck();
      this.#goOnMeasuring();
    } catch (error) {
      this.#fail(error);
    }
    if (this.isIdle && !this.#isInPlace) this.#current?.tidy();
    if (this.isIdle) this.#compact();
    this.pump();
    return this.#truth != null || this.#check !== undefined || (this.#isInPlace && hasBegun);
  }

  /** Looks once more when nothing has been done for a while. */
  #awaitQuiet(): void {
    clearTimeout(this.#quietTimer);
    if (this.#isClosed || !this.#options.measures) return;
    const look = () => {
      this.#isQuiet = true;
      this.#options.onMore?.();
    };
    this.#quietTimer = setTimeout(look, Math.max(quietMs, quietTimes * this.#checkMs)).unref();
  }

  get #isInPlace(): boolean {
    return this.#options.builders instanceof InPlaceBuilders;
  }

  /** Starts the next job; a successor gets two of three, so that it comes to its end while records are added. */
  #start(): boolean {
    const [current, successor] = [this.#current, this.#successor];
    if (current === undefined) return this.#calibrateFirst();
    if (successor === undefined) return current.start();
    // It is to take over as soon as no builder is at work on the others.
    if (successor.isIdle && !this.#missing?.size) return false;
    if (this.#turn++ % 3 === 0) return current.start() || successor.start();
    return successor.start() || current.start();
  }

  /** What a set of graphs needs of this index; only the one that serves changes where vectors lie. */
  #host(isServing: () => boolean = () => true): GraphHost {
    const { builders } = this.#options;
    return {
      run: (target, job, done) => this.#run(target, job, done),
      forget: (id) => builders.forget(id),
      vectorOf: (name) => this.#vectors.vectorOf(name),
      onLinked: (name) => {
        if (!isServing()) return;
        this.#work++;
        if (this.#isMeasuring) this.#linkedSince.add(name);
        if (this.#fresh.length < freshMax) this.#fresh.push(name);
        else this.#fresh[this.#work % freshMax] = name;
        this.#vectors.onLinked(name);
      },
    };
  }

  #run(target: Target, job: GraphJob, done: () => void): void {
    this.#running++;
    this.#isQuiet = false;
    this.#options.builders.run(target, job, (error) => {
      this.#running--;
      if (this.#isClosed) return;
      try {
        if (error !== null) throw error;
        done();
      } catch (failure) {
        this.#fail(failure);
      }
      this.pump();
      this.#afterJob();
    });
  }

  /** A builder has done something: perhaps it is time to measure, or to sweep. */
  #afterJob(): void {
    if (!this.#isInPlace) this.#awaitQuiet();
    if (!this.#isInPlace && (this.#isCheckDue || this.isIdle) && this.tidy()) this.#options.onMore?.();
    this.#options.onProgress?.();
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
    this.#calibrate({ dataType, range, rows }, (set) => {
      this.#current = set;
      for (const name of this.#vectors.waiting()) set.enqueue(name);
    });
    return true;
  }

  #rowsOf(names: readonly number[]): Float32Array {
    const { dimension } = this.#options;
    const rows = new Float32Array(names.length * dimension);
    names.forEach((name, i) => {
      rows.set(this.#vectors.vectorOf(name) as Float32Array, i * dimension);
    });
    return rows;
  }

  #calibrate(
    request: Pick<CalibrationRequest, "dataType" | "range" | "rows">,
    then: (set: GraphSet) => void,
  ): void {
    const { metric, dimension, seed, builders } = this.#options;
    this.#isCalibrating = true;
    this.#running++;
    builders.calibrate({ ...request, metric, dimension, seed }, (error, state) => {
      this.#running--;
      this.#isCalibrating = false;
      if (this.#isClosed) return;
      try {
        if (state === null) throw error;
        const set: GraphSet = new GraphSet(
          Encoding.fromState(state),
          this.#setOptions,
          this.#host(() => this.#current === set),
        );
        then(set);
      } catch (failure) {
        this.#fail(failure);
      }
      this.pump();
    });
  }

  /** Has graphs of other codes built, as soon as there is memory for them; says once that there is none. */
  #succeed(succession: Succession): void {
    this.#postponed = succession;
    if (this.#goOnSucceeding() || this.#isPostponementTold) return;
    this.#isPostponementTold = true;
    this.#options.onNotice?.(
      `${succession.notice}; the memory budget has no room for graphs of type ${succession.dataType} beside the present ones, so these serve until it has`,
    );
  }

  /** Builds the graphs anew where most of their memory is free, to give it back. */
  #compact(): void {
    const current = this.#current;
    if (!this.#options.measures || this.#postponed || !current?.isMostlyFree || current.count === 0) return;
    const { dataType, range, reason } = current.encoding.toState();
    const notice = "most of the graphs' memory is free after removals; they are built anew to give it back";
    this.#succeed({ dataType, range: range ?? undefined, notice, reason: reason ?? notice });
  }

  /** Begins with a successor that waits for memory, where there is some. */
  #goOnSucceeding(): boolean {
    const { mayTake, onNotice } = this.#options;
    const [current, postponed] = [this.#current, this.#postponed];
    if (!current || !postponed || this.#successor || this.#isCalibrating) return false;
    const vectors = current.count + this.#vectors.waitingCount();
    const bytes = graphSetBytes(
      { ...this.#options, dataType: postponed.dataType, areas: this.areas },
      vectors,
    );
    if (mayTake?.(bytes) === false) return false;
    this.#postponed = undefined;
    this.#isPostponementTold = false;
    this.#successorBytes = bytes;
    onNotice?.(postponed.notice);
    this.#build(postponed);
    return true;
  }

  /** Builds graphs of other codes, which take the place of those that serve. */
  #build({ dataType, range, reason }: Pick<Succession, "dataType" | "range" | "reason">): void {
    const { vectors } = this.#vectors.sample(sampleMax);
    this.#calibrate({ dataType, range, rows: vectors }, (set) => {
      const { clampedShare } = this.#current?.encoding.toState() ?? {};
      const encoding = Encoding.fromState({ clampedShare, ...set.encoding.toState(), reason });
      const successor: GraphSet = new GraphSet(
        encoding,
        this.#setOptions,
        this.#host(() => this.#current === successor),
      );
      const names = [...(this.#current?.names() ?? []), ...this.#vectors.waiting()].sort((a, b) => a - b);
      for (const name of names) successor.enqueue(name);
      this.#successor = successor;
    });
  }

  /** Puts the successor in place when it has all names that the serving graphs have. */
  #replace(): void {
    const [current, successor] = [this.#current, this.#successor];
    if (!current || !successor?.isIdle || this.#isClosed || !current.isQuiet) return;
    this.#missing ??= new Set(current.names().filter((name) => !successor.has(name)));
    if (this.#missing.size > 0) return;
    this.#missing = undefined;
    this.#successor = undefined;
    this.#successorBytes = 0;
    this.#current = successor;
    for (const name of this.#vectors.waiting()) if (successor.has(name)) this.#vectors.onLinked(name);
    current.close();
    // What was measured was of other codes.
    this.#check = undefined;
    this.#reconnectedWork = -1;
    this.#quality = undefined;
    this.#efFloor = 0;
    this.#isScanning = false;
  }

  // ---- Measuring

  get #isMeasuring(): boolean {
    return this.#truth !== undefined || this.#check !== undefined;
  }

  get #isCheckDue(): boolean {
    const current = this.#current;
    if (!this.#options.measures || !current || this.#successor || this.#isCalibrating || this.#isMeasuring)
      return false;
    // Removed vectors take places in beams until they are swept.
    if (current.count < checkMin || current.isSweeping) return false;
    if (this.#quality === undefined) return current.isIdle || current.count >= firstCheckCount;
    // What was measured in the middle of a build is measured again at its end.
    if ((this.#isBuildMeasured || this.#isQuiet) && current.isIdle && this.#hasChangedBy(0)) return true;
    return this.#hasChangedBy(current.isIdle ? changeShare : changeShareInBuild);
  }

  /** Whether so large a share of what was measured last, and one vector at least, has come or gone since. */
  #hasChangedBy(share: number): boolean {
    if (this.#quality === undefined) return true;
    return this.#work - this.#quality.work >= Math.max(1, share * this.#quality.count);
  }

  /** Begins to measure, where it is time to; returns whether something was begun. */
  #beginCheck(): boolean {
    if (!this.#isCheckDue) return false;
    if (this.#reconnect()) return true;
    const { metric, dimension, builders } = this.#options;
    const { count } = this.#current as GraphSet;
    const rows = this.#vectors.shared();
    const share = this.#hasChangedBy(changeShare) ? 1 : smallSampleShare;
    const size = sampleSize(count, dimension, rows === undefined ? sampleShareWithoutCache * share : share);
    const sample = this.#vectors.sample(size, this.#fresh);
    this.#fresh.length = 0;
    this.#checkBeganMs = performance.now();
    this.#checkCount = count;
    this.#checkWork = this.#work;
    this.#linkedSince.clear();
    // One more than is asked for: each vector is its own nearest.
    const k = qualityDepth + 1;
    if (rows !== undefined) {
      this.#truth = null;
      builders.truth({ metric, dimension, rows, queries: sample.vectors, k }, (error, truths) => {
        if (this.#isClosed) return;
        this.#truth = undefined;
        try {
          if (truths === null) throw error;
          this.#ask(sample, truths);
        } catch (failure) {
          this.#fail(failure);
        }
        if (!this.#isInPlace) this.#options.onMore?.();
      });
      return true;
    }
    const queries = sample.names.map((_, i) => vectorAt(sample, i, dimension));
    const search = this.#vectors.beginTruth(queries, k);
    if (search !== undefined) this.#truth = { search, sample };
    return search !== undefined;
  }

  /** Before graphs that are built are measured, their lonely vectors are reconnected. Products have nothing to look for by themselves. */
  #reconnect(): boolean {
    const { metric, efSearch } = this.#options;
    const current = this.#current as GraphSet;
    if (metric === "dot_product" || !current.isIdle || this.#reconnectedWork === this.#work) return false;
    this.#reconnectedWork = this.#work;
    current.reconnect(efSearch);
    return true;
  }

  #goOnMeasuring(): void {
    if (this.#truth) {
      const { search, sample } = this.#truth;
      if (!search.run(() => true)) return;
      const truths = search.finish();
      search.end();
      this.#truth = undefined;
      this.#ask(sample, truths);
    }
    const check = this.#check;
    const isNew = (name: number) => this.#linkedSince.has(name);
    if (
      check?.step((question, ef) => this.#vectors.ask(question, ef, isNew), questionsPerStep(check.ef)) ===
      false
    ) {
      this.#check = undefined;
      this.#judge(check);
    }
  }

  #ask(sample: Sample, truths: readonly Candidates[]): void {
    const { metric, dimension, efSearch } = this.#options;
    const questions = truths.map((truth, i) => ({
      name: sample.names[i],
      vector: vectorAt(sample, i, dimension),
      truth,
    }));
    this.#check = new QualityCheck(metric, questions, efSearch);
  }

  /** Acts on what was measured. */
  #judge(check: QualityCheck): void {
    const current = this.#current;
    if (current === undefined) return;
    // What came meanwhile is not in the exact answers. It is measured next.
    const quality = check.result(this.#checkCount, this.#checkWork);
    this.#quality = quality;
    this.#checkMs = performance.now() - this.#checkBeganMs;
    this.#isBuildMeasured = !current.isIdle;
    // Better codes take their time to build: until they serve, the present ones are searched with more effort.
    if (this.#successor === undefined && !this.#isCalibrating) {
      const better = this.#wanted(quality, current.encoding);
      if (better !== undefined) this.#succeed(better);
      // A longer beam loses less by the codes; the usual one decides.
      else if (quality.ef === this.#options.efSearch) this.#postponed = undefined;
    }
    const wanted = wantedOf(current.count);
    if (quality.recall >= wanted.recall && quality.itself >= wanted.itself) {
      if (quality.ef !== this.#options.efSearch && quality.ef !== this.#efFloor)
        this.#options.onNotice?.(
          `a beam of ${this.#options.efSearch} finds too little; searches that name none take one of ${quality.ef}`,
        );
      this.#efFloor = quality.ef === this.#options.efSearch ? 0 : quality.ef;
      this.#isScanning = false;
      return;
    }
    const longer = 2 * quality.ef;
    if (longer <= efMax && readsPerBeamPlace * longer < current.count) {
      this.#check = check.withBeam(longer);
      return;
    }
    if (!this.#isScanning)
      this.#options.onNotice?.(
        `a beam of ${quality.ef} finds ${quality.recall.toFixed(3)} of the nearest vectors; searches that name no beam read all ${current.count}`,
      );
    this.#isScanning = true;
  }

  /** The codes that are to take the place of the present ones, where those lose too much and there are any. */
  #wanted({ codeLoss }: Quality, encoding: Encoding): Succession | undefined {
    if (codeLoss <= codeLossMax) return undefined;
    const { dataType, range } = encoding.toState();
    const told = `codes of type ${dataType} lost ${codeLoss.toFixed(3)} of the exact answers`;
    const next = better[dataType];
    if (this.#options.dataType === "auto" && next !== undefined) {
      const reason = `${told}, which is more than ${codeLossMax}`;
      return { dataType: next, range: range ?? undefined, notice: reason, reason };
    }
    if (range === null) return undefined;
    const reason = `${told}, for the range cuts values off; it is not applied`;
    return { dataType, range: undefined, notice: reason, reason };
  }

  /** Building ends here. Vectors that no graph has are found by scans, so every answer remains right. */
  #fail(error: unknown): void {
    if (this.#failure === undefined) this.#failure = error;
    this.#successorBytes = 0;
    this.#drop();
    this.#options.onError?.(error);
  }

  #drop(): void {
    for (const drop of this.#drops) drop();
    this.#drops.clear();
  }
}

function vectorAt({ vectors }: Sample, i: number, dimension: number): Float32Array {
  return vectors.subarray(i * dimension, (i + 1) * dimension);
}
