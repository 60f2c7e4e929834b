// By which cutoff does a search find as much as with a beam of one length, for fewer comparisons?
//
// A beam with a cutoff ends where the next candidate is much farther than the tenth best (kernels/assembly/hnsw/search-layer.ts). How much
// farther depends on the data (0.05 to 0.6 of the squared distance), so it is measured: sampled vectors are searched for by the beam of one
// length, and by halving the steps of a ladder the least spread is found that finds enough. Nothing is lost by taking the results of a much
// longer beam for the truth: what only an exact search finds, both ways miss. So this costs no scan, and a sample that tells
// thousandths of recall is cheap for any number of vectors.

import type { MetricName } from "@quiverdb/protocol/shapes/index-definition";
import type { CutBeam } from "./beam.ts";
import type { Sample, Vectors } from "./build-host.ts";
import { efMax } from "./graph-layout.ts";
import { QualityCheck, type Question } from "./quality.ts";

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
 * has doubled it, which overshoots, a cutoff need only find the wanted recall and so much more.
 */
const recallMargin = 0.002;
/** A cutoff must save this share of the comparisons. */
const savedMin = 0.05;

const questionCount = 200;
/** Fewer are asked if each vector must be read from the store. */
const questionCountWithoutCache = 50;

export type CutConditions = {
  /** The beam of one length; whether it is longer than the definition's. */
  readonly ef: number;
  readonly isDoubled: boolean;
  /** How many of a search's results are scored exactly: none of them is cut. */
  readonly depth: number;
  /** The wanted one. */
  readonly recall: number;
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
    { ef, depth, recall, isDoubled }: CutConditions,
  ) {
    this.#recall = recall;
    this.#isDoubled = isDoubled;
    this.#vectors = vectors;
    this.#isNew = isNew;
    this.#metric = metric;
    this.#ef = ef;
    this.#least = Math.max(leastMin, depth);
    const isCached = vectors.shared() !== undefined;
    this.#sample = vectors.sample(isCached ? questionCount : questionCountWithoutCache);
  }

  /** Whether a cutoff can save anything: products are no distances, and what is scored exactly fills a short beam. */
  static isPossible(metric: MetricName, ef: number, depth: number): boolean {
    return metric !== "dot_product" && Math.max(leastMin, depth) <= ef / 2;
  }

  /** The chosen beam when `step` has returned false; null: that of one length costs less. */
  get chosen(): CutBeam | null {
    const [plain, best] = [this.#plain, this.#best];
    if (plain === undefined || best === undefined) return null;
    return best.compared <= (1 - savedMin) * plain.compared ? (best.beam as CutBeam) : null;
  }

  /** Asks some questions; returns whether there are more. */
  step(count: number): boolean {
    const { vectorKeys, vectors } = this.#sample;
    const dimension = vectors.length / Math.max(1, vectorKeys.length);
    for (let i = 0; i < count && this.#questions.length < vectorKeys.length; i++) {
      const at = this.#questions.length;
      const vector = vectors.subarray(at * dimension, (at + 1) * dimension);
      const truth = this.#vectors.nearest(vector, Math.min(efMax, truthTimes * this.#ef));
      this.#questions.push({ vectorKey: vectorKeys[at], vector, truth });
    }
    if (this.#questions.length < vectorKeys.length) return true;
    this.#check ??= new QualityCheck(this.#metric, this.#questions, this.#ef);
    if (this.#check.step((question, beam) => this.#vectors.ask(question, beam, this.#isNew), count))
      return true;
    this.#judge(this.#check);
    if (this.#low === this.#high) return false;
    const spread = spreads[(this.#low + this.#high) >> 1];
    const most = Math.min(efMax, Math.ceil(mostTimes * this.#ef));
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
