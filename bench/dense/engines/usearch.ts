// How is USearch asked?
//
// The beam of a search is set when an index is constructed. So the finished index is saved once, and each beam gets an index
// of its own that views that file: one graph in memory, many beams.

import { statSync } from "node:fs";
import { join } from "node:path";
import { type Engine, type EngineKind, efConstruction, m, normalised, rival, type Shape } from "../engine.ts";

type Codes = Float32Array | Int8Array;

function open({ metric, dimension, count, low, high, directory }: Shape, isInteger: boolean): Engine {
  const { Index } = rival("usearch");
  const unit = metric === "cosine" ? normalised : (values: Float32Array) => values;
  // Moving the values so that codes use all of i8 was tried on siftsmall, and lowered the recall of its i8 kernel (0.82 with
  // a beam of 512, against 0.94), although the same codes compared exactly come out better.
  const scale = 127 / Math.max(high, -low);
  // Its own conversion to i8 scales each vector by its length, which only cosine survives, and wastes most of the range
  // in many dimensions. One step for all, as chosen here, does it more good.
  const encode = (values: Float32Array): Codes =>
    isInteger
      ? Int8Array.from(unit(values), (value) => Math.max(-127, Math.min(127, Math.round(value * scale))))
      : unit(values);
  const make = (ef: number) =>
    new Index({
      dimensions: dimension,
      // The lengths of codes differ a little, those of normalised floats do not.
      metric: metric === "euclidean" ? "l2sq" : metric === "cosine" && isInteger ? "cos" : "ip",
      quantization: isInteger ? "i8" : "f32",
      connectivity: m,
      expansion_add: efConstruction,
      expansion_search: ef,
      multi: false,
    });
  const path = join(directory, "index.usearch");
  let whole = make(efConstruction);
  const views = new Map<
    number,
    { search(query: Codes, k: number, threads: number): { keys: BigUint64Array } }
  >();
  return {
    add: (rows, first) => rows.forEach((row, i) => void whole.add(BigInt(first + i), encode(row), 1)),
    finish() {
      whole.save(path);
      whole = undefined;
    },
    bytesPerVector: () => statSync(path).size / count,
    prepare: encode,
    search(query: Codes, k, ef) {
      let view = views.get(ef);
      if (view === undefined) {
        const opened = make(ef);
        opened.view(path);
        views.set(ef, opened);
        view = opened as NonNullable<typeof view>;
      }
      return view.search(query, k, 1).keys;
    },
  };
}

export const usearch: readonly EngineKind[] = [
  {
    name: "usearch-f32",
    title: "usearch 2.26.2 f32",
    isMappedOften: true,
    note: "Cosine as inner product of normalised vectors. One saved index, viewed once for each beam; bytes are those of the file.",
    open: (shape) => open(shape, false),
  },
  {
    name: "usearch-i8",
    title: "usearch 2.26.2 i8",
    isMappedOften: true,
    note: "Codes made by the benchmark with one step for all vectors, for its own conversion keeps less; not scored again, for it has no such step.",
    open: (shape) => open(shape, true),
  },
];
