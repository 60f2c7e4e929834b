// Where does each vector lie on a map of two dimensions?
//
// First by the principal components, which is quick and keeps large distances; then by UMAP (McInnes, Healy and Melville 2018; the library
// umap-js), which keeps neighbours together. UMAP starts from few principal coordinates instead of the vectors, which removes noise and makes
// it affordable. Of many records it arranges a sample; each of the others lies among its nearest ones of the sample.

import { UMAP } from "umap-js";
import { randomFrom } from "./pca.ts";

/** Principal coordinates that UMAP starts from. */
export const componentsOfUmap = 16;
/** With more than `all` records, UMAP arranges a sample. */
const arranged = { all: 10_000, sample: 5_000 };
const nearestOfSample = 3;

export type Step = { readonly share: number; readonly points?: Float32Array<ArrayBuffer> };

/** The first two of the principal coordinates. */
export function firstTwo(coordinates: Float32Array, components: number): Float32Array<ArrayBuffer> {
  const count = coordinates.length / components;
  const points = new Float32Array(2 * count);
  for (let i = 0; i < count; i++) {
    points[2 * i] = coordinates[i * components];
    points[2 * i + 1] = components > 1 ? coordinates[i * components + 1] : 0;
  }
  return points;
}

/** Yields the share that is done, and from time to time where the points are by then. */
export function* arrange(
  coordinates: Float32Array,
  components: number,
  everyMs: number,
  now: () => number,
  limits = arranged,
): Generator<Step> {
  const count = coordinates.length / components;
  const sample = sampleOf(count, limits);
  const rowOf = (i: number) => Array.from(coordinates.subarray(i * components, (i + 1) * components));
  const umap = new UMAP({
    nComponents: 2,
    nNeighbors: Math.max(2, Math.min(15, sample.length - 1)),
    minDist: 0.1,
    random: randomFrom(1),
  });
  const epochs = umap.initializeFit(Array.from(sample, rowOf));
  startFrom(coordinates, components, sample, umap.getEmbedding());
  const place = sample.length === count ? undefined : yield* placesAmong(coordinates, components, sample);
  const current = () => (place === undefined ? flat(umap.getEmbedding()) : place(umap.getEmbedding()));
  let toldMs = now();
  for (let epoch = 0; epoch < epochs; epoch++) {
    umap.step();
    const nowMs = now();
    if (nowMs - toldMs < everyMs && epoch < epochs - 1) continue;
    toldMs = nowMs;
    yield { share: (epoch + 1) / epochs, points: current() };
  }
}

/** Half the width of the square that UMAP begins in. */
const startExtent = 10;

/**
 * Puts the principal coordinates in the place of the random ones that UMAP would begin with, which tear groups apart that lie together (Kobak
 * and Linderman 2021). The library moves the rows that it gives, so they are changed in place.
 */
function startFrom(
  coordinates: Float32Array,
  components: number,
  sample: Uint32Array,
  rows: number[][],
): void {
  let largest = Number.MIN_VALUE;
  for (const i of sample)
    for (let d = 0; d < 2; d++)
      largest = Math.max(largest, Math.abs(coordinates[i * components + Math.min(d, components - 1)]));
  rows.forEach((row, s) => {
    const at = sample[s] * components;
    row[0] = (startExtent * coordinates[at]) / largest;
    row[1] = components > 1 ? (startExtent * coordinates[at + 1]) / largest : 0;
  });
}

const flat = (rows: readonly (readonly number[])[]): Float32Array<ArrayBuffer> => {
  const points = new Float32Array(2 * rows.length);
  rows.forEach(([x, y], i) => {
    points[2 * i] = x;
    points[2 * i + 1] = y;
  });
  return points;
};

/** All of them, or a random sample, ascending. */
function sampleOf(count: number, limits: typeof arranged): Uint32Array {
  const all = Uint32Array.from({ length: count }, (_, i) => i);
  if (count <= limits.all) return all;
  const random = randomFrom(2);
  for (let i = 0; i < limits.sample; i++) {
    const j = i + Math.floor(random() * (count - i));
    [all[i], all[j]] = [all[j], all[i]];
  }
  return all.slice(0, limits.sample).sort();
}

/** Finds the nearest ones of the sample of each record. @returns what makes the points of all from those of the sample */
function* placesAmong(
  coordinates: Float32Array,
  components: number,
  sample: Uint32Array,
): Generator<Step, (rows: readonly (readonly number[])[]) => Float32Array<ArrayBuffer>> {
  const count = coordinates.length / components;
  const nearest = new Uint32Array(count * nearestOfSample);
  const weights = new Float32Array(count * nearestOfSample);
  const best = new Float64Array(nearestOfSample);
  for (let i = 0; i < count; i++) {
    best.fill(Number.POSITIVE_INFINITY);
    for (let s = 0; s < sample.length; s++) {
      let distance = 0;
      for (let d = 0; d < components && distance < best[nearestOfSample - 1]; d++) {
        const difference = coordinates[i * components + d] - coordinates[sample[s] * components + d];
        distance += difference * difference;
      }
      if (distance >= best[nearestOfSample - 1]) continue;
      let at = nearestOfSample - 1;
      for (; at > 0 && best[at - 1] > distance; at--) {
        best[at] = best[at - 1];
        nearest[i * nearestOfSample + at] = nearest[i * nearestOfSample + at - 1];
      }
      best[at] = distance;
      nearest[i * nearestOfSample + at] = s;
    }
    // A record of the sample lies where UMAP has put it.
    for (let k = 0; k < nearestOfSample; k++)
      weights[i * nearestOfSample + k] = best[0] === 0 ? Number(k === 0) : best[0] / best[k];
    if (i % 2_000 === 0) yield { share: 0 };
  }
  return (rows) => {
    const points = new Float32Array(2 * count);
    for (let i = 0; i < count; i++) {
      let [x, y, sum] = [0, 0, 0];
      for (let k = i * nearestOfSample; k < (i + 1) * nearestOfSample; k++) {
        x += weights[k] * rows[nearest[k]][0];
        y += weights[k] * rows[nearest[k]][1];
        sum += weights[k];
      }
      points[2 * i] = x / sum;
      points[2 * i + 1] = y / sum;
    }
    return points;
  };
}
