// Is the recall of the graphs high enough, and which beam width does it need?
//
// Recall is measured when the graphs have been built, and each time a tenth of them has changed; during a long build when they have
// doubled. A sample of the vectors is searched for (quality.ts), and the beam width is doubled until it finds enough (`wantedOf`); searches
// that set no width use that one. If no sufficient width costs less than a scan, searches scan all vectors. When the graphs are built, a beam
// with a cutoff is looked for that finds as much for less (cut-choice.ts), and another for each width that searches take to reach a recall.
// Scheduling, measuring and its consequences share the counts of changes, so they are one class.

import { inBackground, type Timer } from "../../base/host.ts";
import type { Steps } from "../../base/steps.ts";
import type { Candidates } from "../contract.ts";
import { type MaintenanceOptions, type Sample, type Vectors, vectorAt } from "./build-host.ts";
import { CutChoice } from "./cut-choice.ts";
import { efMax } from "./graph-layout.ts";
import type { GraphSet } from "./graph-set.ts";
import { depthOf } from "./hnsw-search.ts";
import { type AskedCut, type Quality, QualityCheck, qualityDepth, sampleSize } from "./quality.ts";
import { beamOfScan } from "./search-cost.ts";
import { truths as truthsTask } from "./tasks.ts";

/**
 * Minimum recall, and minimum fraction of vectors that find themselves, by the number of vectors: with few vectors a wider beam costs
 * little.
 */
const wantedOf = (count: number): { recall: number; itself: number } => {
  if (count <= 10_000) return { recall: 0.999, itself: 0.999 };
  if (count <= 50_000) return { recall: 0.99, itself: 0.99 };
  return { recall: count <= 200_000 ? 0.985 : 0.95, itself: 0.99 };
};

/** Fraction of changed vectors that triggers a new measurement. */
const changeShare = 0.1;
/** The same while builders are working, whose end triggers a measurement anyway: with a tenth, measuring took as long as building. */
const changeShareInBuild = 1;
/**
 * Any change triggers a measurement after this idle time, and after this multiple of the last measurement's duration: at most a twentieth
 * of a core.
 */
const quietMs = 500;
const quietTimes = 20;
/** Then few questions are enough: a part of the sample. */
const smallSampleShare = 0.25;
/** Number of remembered vector keys that were linked since the last measurement: half of the sample is drawn from them. */
const freshMax = 1_000;
/** With this many vectors the first measurement does not wait for the end of the build. */
const firstCheckCount = 10_000;
/** Fewer vectors are too few to measure. */
const checkMin = 100;
/** Only a part of the sample is used if this thread must read the vectors from the store. */
const sampleShareWithoutCache = 0.25;
/** Number of queries between two checks of the clock, measured in beam entries. */
const questionsPerStep = (ef: number): number => Math.max(1, Math.floor(512 / ef));

/** The index that is measured, and its callbacks. */
export interface Watched {
  readonly current: GraphSet | undefined;
  /** Whether the present graphs are about to be replaced. */
  readonly isBeingReplaced: boolean;
  readonly isClosed: boolean;
  /** Vectors that were linked or removed since the index was made. */
  readonly work: number;
  /** Something was measured. */
  onMeasured(quality: Quality): void;
  onFailure(error: unknown): void;
}

/** The part that a checkpoint stores. */
export type WatchState = {
  readonly quality: Quality | undefined;
  readonly efFloor: number;
  readonly isScanning: boolean;
};

export class RecallWatch {
  readonly #options: MaintenanceOptions;
  readonly #vectors: Vectors;
  readonly #watched: Watched;
  /** What had been linked or removed when lonely vectors were reconnected. */
  #reconnectedWork = -1;
  /** Whether nothing has been done for a while. */
  #isQuiet = false;
  #quietTimer: Timer | undefined;
  #checkBeganMs = 0;
  /** How long the last measurement took. */
  #checkMs = 0;
  /**
   * Of the measurement that is being made: vectors in the graphs and what had been linked or removed when it began, and vector keys linked
   * since.
   */
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
  /** The running exact search, in a builder (`null`) or in this thread. */
  #truth: { search: Steps<Candidates[]>; sample: Sample } | null | undefined;
  #check: QualityCheck | undefined;
  #cutting: CutChoice | undefined;
  /** Recalls that searches ask for, by the beams that reach them, whose cutoffs are to be measured; and the one that is being measured. */
  readonly #asked = new Map<number, number>();
  #cuttingFor: Omit<AskedCut, "cut"> | undefined;

  constructor(options: MaintenanceOptions, vectors: Vectors, watched: Watched) {
    this.#options = options;
    this.#vectors = vectors;
    this.#watched = watched;
  }

  /** The latest measurement. */
  get quality(): Quality | undefined {
    return this.#quality;
  }

  /** Minimum beam width of searches that set none. */
  get efFloor(): number {
    return this.#efFloor;
  }

  /**
   * Whether searches that name no beam read all vectors: because no beam finds enough, or because nothing was measured yet.
   * Of many vectors that would take too long, and most graphs of many find enough.
   */
  get isScanning(): boolean {
    if (this.#isScanning) return true;
    const count = this.#watched.current?.count ?? 0;
    return (
      this.#options.measures && this.#quality === undefined && count >= checkMin && count <= firstCheckCount
    );
  }

  /** Whether the beam is measured of the graphs as they are, but for a small part; of what was measured during a build nothing may be new. */
  get isSettled(): boolean {
    const { current } = this.#watched;
    if (!this.#options.measures || current === undefined || current.count < checkMin) return true;
    // The first cutoff makes searches faster.
    const isFirstCut = this.#cutting !== undefined && this.#cuttingFor === undefined;
    if (isFirstCut && this.#quality?.cut === undefined) return false;
    return !this.#hasChangedBy(this.#isBuildMeasured ? 0 : changeShare);
  }

  get isMeasuring(): boolean {
    return this.#truth !== undefined || this.#check !== undefined || this.#cutting !== undefined;
  }

  /** Whether this thread has something to do for the measurement. */
  get hasSteps(): boolean {
    return (
      this.#truth != null || this.#check !== undefined || this.#cutting !== undefined || this.#isAskedDue
    );
  }

  state(): WatchState {
    return { quality: this.#quality, efFloor: this.#efFloor, isScanning: this.#isScanning };
  }

  restore({ quality, efFloor, isScanning }: WatchState): void {
    this.#quality = quality;
    this.#efFloor = efFloor;
    this.#isScanning = isScanning;
  }

  /** Other graphs serve now, so the measurements, which were of other codes, are void. */
  reset(): void {
    this.#check = undefined;
    this.#cutting = undefined;
    this.#cuttingFor = undefined;
    this.#asked.clear();
    this.#reconnectedWork = -1;
    this.restore({ quality: undefined, efFloor: 0, isScanning: false });
  }

  close(): void {
    clearTimeout(this.#quietTimer);
    this.#truth = undefined;
    this.#check = undefined;
    this.#cutting = undefined;
    this.#cuttingFor = undefined;
    this.#asked.clear();
  }

  /** The graphs that serve have one more vector key. */
  onLinked(vectorKey: number): void {
    if (this.isMeasuring) this.#linkedSince.add(vectorKey);
    if (this.#fresh.length < freshMax) this.#fresh.push(vectorKey);
    else this.#fresh[this.#watched.work % freshMax] = vectorKey;
  }

  /** A builder begins to work. */
  onWork(): void {
    this.#isQuiet = false;
  }

  /** Looks once more when nothing has been done for a while. */
  awaitQuiet(): void {
    clearTimeout(this.#quietTimer);
    if (this.#watched.isClosed || !this.#options.measures) return;
    const look = () => {
      this.#isQuiet = true;
      this.#options.onMore?.();
    };
    this.#quietTimer = inBackground(setTimeout(look, Math.max(quietMs, quietTimes * this.#checkMs)));
  }

  get isDue(): boolean {
    const { current, isBeingReplaced } = this.#watched;
    if (!this.#options.measures || !current || isBeingReplaced || this.isMeasuring) return false;
    // Removed vectors take places in beams until they are swept.
    if (current.count < checkMin || current.isSweeping) return false;
    if (this.#quality === undefined) return current.isIdle || current.count >= firstCheckCount;
    // A measurement in the middle of a build is repeated at its end.
    if ((this.#isBuildMeasured || this.#isQuiet) && current.isIdle && this.#hasChangedBy(0)) return true;
    return this.#hasChangedBy(current.isIdle ? changeShare : changeShareInBuild);
  }

  /** Whether this fraction of the measured vectors, and at least one, has been added or removed since. */
  #hasChangedBy(share: number): boolean {
    if (this.#quality === undefined) return true;
    return this.#watched.work - this.#quality.work >= Math.max(1, share * this.#quality.count);
  }

  /** Starts a measurement if it is due; returns whether one was started. */
  begin(): boolean {
    if (!this.isDue) return this.#beginAsked();
    if (this.#reconnect()) return true;
    const { dimension } = this.#options;
    const { count } = this.#watched.current as GraphSet;
    const rows = this.#vectors.shared();
    const share = this.#hasChangedBy(changeShare) ? 1 : smallSampleShare;
    const size = sampleSize(count, dimension, rows === undefined ? sampleShareWithoutCache * share : share);
    const sample = this.#vectors.sample(size, this.#fresh);
    this.#fresh.length = 0;
    this.#checkBeganMs = performance.now();
    this.#checkCount = count;
    this.#checkWork = this.#watched.work;
    this.#linkedSince.clear();
    // One more than requested, because each vector is its own nearest.
    const k = qualityDepth + 1;
    if (rows !== undefined) {
      this.#truth = null;
      this.#haveTruthFound(rows, sample, k);
      return true;
    }
    const queries = sample.vectorKeys.map((_, i) => vectorAt(sample, i, dimension));
    const search = this.#vectors.beginTruth(queries, k);
    if (search !== undefined) this.#truth = { search, sample };
    return search !== undefined;
  }

  /** Lets a builder compute the exact results. */
  #haveTruthFound(rows: NonNullable<ReturnType<Vectors["shared"]>>, sample: Sample, k: number): void {
    const { metric, dimension, builders, onMore } = this.#options;
    builders.run(truthsTask, { metric, dimension, rows, queries: sample.vectors, k }, (error, truths) => {
      if (this.#watched.isClosed) return;
      this.#truth = undefined;
      try {
        if (truths === null) throw error;
        this.#ask(sample, truths);
      } catch (failure) {
        this.#watched.onFailure(failure);
      }
      if (!builders.isInPlace) onMore?.();
    });
  }

  /** Before graphs that are built are measured, their lonely vectors are reconnected. Products have nothing to look for by themselves. */
  #reconnect(): boolean {
    const { metric, efSearch } = this.#options;
    const { work } = this.#watched;
    const current = this.#watched.current as GraphSet;
    if (metric === "dot_product" || !current.isIdle || this.#reconnectedWork === work) return false;
    this.#reconnectedWork = work;
    current.reconnect(efSearch);
    return true;
  }

  /** Continues the part of the measurement that runs in this thread. */
  goOn(): void {
    if (this.#truth) {
      const { search, sample } = this.#truth;
      const step = search.next();
      if (!step.done) return;
      const truths = step.value;
      this.#truth = undefined;
      this.#ask(sample, truths);
    }
    if (this.#cutting !== undefined) this.#goOnCutting(this.#cutting);
    const check = this.#check;
    if (check === undefined) return;
    const ask: Parameters<QualityCheck["step"]>[0] = (question, beam) =>
      this.#vectors.ask(question, beam, this.#isNew);
    if (check.step(ask, questionsPerStep(check.ef))) return;
    this.#check = undefined;
    this.#judge(check);
  }

  readonly #isNew = (vectorKey: number): boolean => this.#linkedSince.has(vectorKey);

  #ask(sample: Sample, truths: readonly Candidates[]): void {
    const { metric, dimension, efSearch } = this.#options;
    const questions = truths.map((truth, i) => ({
      vectorKey: sample.vectorKeys[i],
      vector: vectorAt(sample, i, dimension),
      truth,
    }));
    this.#check = new QualityCheck(metric, questions, efSearch);
  }

  /** Reacts to the measurement. */
  #judge(check: QualityCheck): void {
    const { current } = this.#watched;
    if (current === undefined) return;
    // Vectors that were added meanwhile are not in the exact results. They are measured next.
    const { cut, askedCuts } = this.#quality ?? {};
    const quality = { ...check.result(this.#checkCount, this.#checkWork), cut, askedCuts };
    this.#quality = quality;
    this.#checkMs = performance.now() - this.#checkBeganMs;
    this.#isBuildMeasured = !current.isIdle;
    this.#watched.onMeasured(quality);
    this.#chooseBeam(check, quality, current.count);
  }

  #chooseBeam(check: QualityCheck, quality: Quality, count: number): void {
    const { efSearch, onNotice } = this.#options;
    const wanted = wantedOf(count);
    if (quality.recall >= wanted.recall && quality.itself >= wanted.itself) {
      if (quality.ef !== efSearch && quality.ef !== this.#efFloor)
        onNotice?.(
          `a beam of ${efSearch} finds too little; searches that name none take one of ${quality.ef}`,
        );
      this.#efFloor = quality.ef === efSearch ? 0 : quality.ef;
      this.#isScanning = false;
      this.#chooseCut(quality, count);
      return;
    }
    const longer = 2 * quality.ef;
    if (longer <= Math.min(efMax, beamOfScan(this.#options.dimension, count))) {
      this.#check = check.withBeam(longer);
      return;
    }
    if (!this.#isScanning)
      onNotice?.(
        `a beam of ${quality.ef} finds ${quality.recall.toFixed(3)} of the nearest vectors; searches that name no beam read all ${count}`,
      );
    this.#isScanning = true;
  }

  /** Looks for a beam with a cutoff that finds as much as the measured one, once the graphs are built. */
  #chooseCut(quality: Quality, count: number): void {
    const { metric, dimension, efSearch } = this.#options;
    const current = this.#watched.current as GraphSet;
    const depth = depthOf(current, qualityDepth);
    const isScanned = beamOfScan(dimension, count) <= quality.ef;
    if (this.#isBuildMeasured || isScanned || !CutChoice.isPossible(metric, quality.ef, depth)) {
      // It was measured against another beam.
      this.#quality = { ...quality, cut: undefined };
      return;
    }
    const { recall } = wantedOf(count);
    const isDoubled = quality.ef > efSearch;
    const conditions = { ef: quality.ef, isDoubled, depth, recall, isAsked: false };
    this.#cutting = new CutChoice(this.#vectors, this.#isNew, metric, conditions);
  }

  /** See `Beams.askCut`. */
  askCut(k: number, ef: number, recall: number): boolean {
    const { current, work } = this.#watched;
    const quality = this.#quality;
    if (current === undefined || quality === undefined || k === 1 || k > qualityDepth) return false;
    if (!CutChoice.isAskable(this.#options.metric, ef, recall)) return false;
    const known = quality.askedCuts?.find((asked) => asked.ef === ef);
    const isKnown = known !== undefined && known.recall >= recall;
    const isFresh = isKnown && work - known.work <= changeShare * quality.count;
    const measured = this.#cuttingFor?.ef === ef ? this.#cuttingFor.recall : 0;
    if (!isFresh && Math.max(measured, this.#asked.get(ef) ?? 0) < recall) {
      this.#asked.set(ef, Math.max(recall, known?.recall ?? 0));
      this.#options.onMore?.();
    }
    return isKnown;
  }

  /** Whether the cutoff of an asked beam can be measured: of graphs that are built. */
  get #isAskedDue(): boolean {
    const { current, isBeingReplaced } = this.#watched;
    if (this.#asked.size === 0 || current === undefined || isBeingReplaced) return false;
    return (
      !this.isDue && !this.isMeasuring && !this.#isBuildMeasured && current.isIdle && !current.isSweeping
    );
  }

  #beginAsked(): boolean {
    if (!this.#isAskedDue) return false;
    const [[ef, recall]] = this.#asked;
    this.#asked.delete(ef);
    this.#linkedSince.clear();
    this.#cuttingFor = { ef, recall, work: this.#watched.work };
    const conditions = { ef, isDoubled: false, depth: qualityDepth, recall, isAsked: true };
    this.#cutting = new CutChoice(this.#vectors, this.#isNew, this.#options.metric, conditions);
    return true;
  }

  #goOnCutting(cutting: CutChoice): void {
    const quality = this.#quality as Quality;
    const asked = this.#cuttingFor;
    if (cutting.step(questionsPerStep(asked?.ef ?? quality.ef))) return;
    this.#cutting = undefined;
    this.#cuttingFor = undefined;
    const { chosen } = cutting;
    if (asked === undefined) this.#quality = { ...quality, cut: chosen };
    else {
      const others = quality.askedCuts?.filter(({ ef }) => ef !== asked.ef) ?? [];
      this.#quality = { ...quality, askedCuts: [...others, { ...asked, cut: chosen }] };
    }
  }
}
