// By which cutoff does a search find as much as with a beam of one length, for fewer comparisons?
//
// A beam with a cutoff ends where the next candidate is much farther than the tenth best (kernels/assembly/hnsw/search-layer.ts). How much
// farther depends on the data (0.05 to 0.6 of the squared distance), so it is measured: sampled vectors are searched for by the beam of one
// length, and by halving the steps of a ladder the least spread is found that finds enough. Nothing is lost by taking the results of a much
// longer beam for the truth: what only an exact search finds, both ways miss. So this costs no scan, and a sample that tells
// thousandths of recall is cheap for any number of vectors.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import type { CutBeam } from "./beam.ts";
import { type Sample, type Vectors, vectorAt } from "./build-host.ts";
import { efMax } from "./graph-layout.ts";
import { QualityCheck, type Question, qualityDepth } from "./quality.ts";

const spreads: readonly number[] = Array.from({ length: 27 }, (_, i) => 0.05 * 1.1 ** i);
/**
 * Queries with many near candidates take a longer beam than that of one length. With twice as long, test queries of glove, which are farther
 * from all than its own vectors, find 0.994 instead of 0.986 but compare 1.08 times as many nodes; with this, 0.989 and 0.89 times.
 */
const mostTimes = 1.25;
/** Entries that are not cut: what keeps a search from ending in the first group of near vectors that it meets. */
const leastMin = 24;
/** The beam whose results are the truth. */
const truthTimes = 4;
/**
 * Two standard errors of the sample at a recall of 0.998. Where the definition sets the beam, a cutoff may lose so much of its recall, for
 * the last thousandth costs a third of the comparisons (clusters of 768 values: 0.999 for 1,640, 0.997 for 1,060). Where the watch
 * has doubled it, or a recall is asked for, a cutoff need only find the wanted recall and so much more.
 */
const recallMargin = 0.002;
/** A cutoff must save this share of the comparisons. */
const savedMin = 0.05;

/**
 * For an asked recall. Queries that are unlike the vectors need a longer beam for it, and a cutoff gives it to them: words that glove (40,000)
 * does not have find 0.85, 0.92, 0.985, 0.986 and 0.99 for an asked 0.9, 0.95, 0.98, 0.99 and 0.995, without a cutoff 0.80, 0.85, 0.96, 0.96 and
 * 0.97. Its own vectors, of which the beam is as long as they need, are compared with 0.84, 0.97, 0.72, 1.15 and 1.11 times as many. With a beam
 * up to three times as long the words find 0.990 instead of 0.985, for 1.2 times the comparisons.
 */
const asked = { mostTimes: 2, least: qualityDepth + 1, truthMin: 512, costMax: 1.2 };

const questionCount = 200;
/** Fewer are asked if each vector must be read from the store. */
const questionCountWithoutCache = 50;

export type CutConditions = {
  /** The beam of one length; whether it is longer than the definition's. */
  readonly ef: number;
  readonly isDoubled: boolean;
  /** How many of a search's results are scored exactly: none of them is cut, unless the recall is asked for. */
  readonly depth: number;
  /** The wanted one. */
  readonly recall: number;
  /** Whether searches ask for it. */
  readonly isAsked: boolean;
};

/** The measurement, in steps. */
export class CutChoice {
  readonly #vectors: Vectors;
  readonly #isNew: (vectorKey: number) => boolean;
  readonly #metric: MetricName;
  readonly #ef: number;
  readonly #least: number;
  readonly #recall: number;
  readonly #isDoubled: boolean;
  readonly #mostTimes: number;
  readonly #costMax: number;
  readonly #truthEf: number;
  readonly #sample: Sample;
  readonly #questions: Question[] = [];
  #check: QualityCheck | undefined;
  /** Of the beam of one length. */
  #plain: QualityCheck | undefined;
  /** Steps of the ladder before `#low` find too little, from `#high` on they find enough. */
  #low = 0;
  #high = spreads.length;
  #best: QualityCheck | undefined;
  /** How many results are enough. */
  #enough = 0;

  /** @param isNew as of `Vectors.ask` */
  constructor(
    vectors: Vectors,
    isNew: (vectorKey: number) => boolean,
    metric: MetricName,
    { ef, depth, recall, isDoubled, isAsked }: CutConditions,
  ) {
    this.#recall = recall;
    this.#isDoubled = isDoubled || isAsked;
    this.#vectors = vectors;
    this.#isNew = isNew;
    this.#metric = metric;
    this.#ef = ef;
    this.#least = isAsked ? asked.least : Math.max(leastMin, depth);
    this.#mostTimes = isAsked ? asked.mostTimes : mostTimes;
    this.#costMax = isAsked ? asked.costMax : 1 - savedMin;
    this.#truthEf = Math.min(efMax, Math.max(truthTimes * ef, isAsked ? asked.truthMin : 0));
    const isCached = vectors.shared() !== undefined;
    this.#sample = vectors.sample(isCached ? questionCount : questionCountWithoutCache);
  }

  /** Whether one can be found for an asked recall, which a beam of this length reaches. */
  static isAskable(metric: MetricName, ef: number, recall: number): boolean {
    return metric !== "dot_product" && ef > asked.least && recall < 1;
  }

  /** Whether a cutoff can save anything: products are no distances, and what is scored exactly fills a short beam. */
  static isPossible(metric: MetricName, ef: number, depth: number): boolean {
    return metric !== "dot_product" && Math.max(leastMin, depth) <= ef / 2;
  }

  /** The chosen beam when `step` has returned false; null: that of one length costs less. */
  get chosen(): CutBeam | null {
    const [plain, best] = [this.#plain, this.#best];
    if (plain === undefined || best === undefined) return null;
    return best.compared <= this.#costMax * plain.compared ? (best.beam as CutBeam) : null;
  }

  /** Asks some questions; returns whether there are more. */
  step(count: number): boolean {
    const { vectorKeys, vectors } = this.#sample;
    const dimension = vectors.length / Math.max(1, vectorKeys.length);
    for (let i = 0; i < count && this.#questions.length < vectorKeys.length; i++) {
      const at = this.#questions.length;
      const vector = vectorAt(this.#sample, at, dimension);
      const truth = this.#vectors.nearest(vector, this.#truthEf);
      this.#questions.push({ vectorKey: vectorKeys[at], vector, truth });
    }
    if (this.#questions.length < vectorKeys.length) return true;
    this.#check ??= new QualityCheck(this.#metric, this.#questions, this.#ef);
    if (this.#check.step((question, beam) => this.#vectors.ask(question, beam, this.#isNew), count))
      return true;
    this.#judge(this.#check);
    if (this.#low === this.#high) return false;
    const spread = spreads[(this.#low + this.#high) >> 1];
    const most = Math.min(efMax, Math.ceil(this.#mostTimes * this.#ef));
    this.#check = this.#check.withBeam({ most, least: this.#least, spread });
    return true;
  }

  #judge(check: QualityCheck): void {
    if (this.#plain === undefined) {
      this.#plain = check;
      const wanted = this.#recall * check.wanted;
      const margin = recallMargin * check.wanted;
      this.#enough = Math.min(
        check.met,
        this.#isDoubled ? wanted + margin : Math.max(wanted, check.met - margin),
      );
      return;
    }
    const middle = (this.#low + this.#high) >> 1;
    if (check.met >= this.#enough && check.itself >= this.#plain.itself) {
      this.#best = check;
      this.#high = middle;
    } else this.#low = middle + 1;
  }
}
