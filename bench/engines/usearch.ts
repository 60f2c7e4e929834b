// How does a benchmark use USearch?
//
// The beam of a search is set when an index is constructed. So the finished index is saved once, and each beam gets an index
// of its own that views that file: one graph in memory, many beams.

import { statSync } from "node:fs";
import { join } from "node:path";
import { type Engine, type EngineKind, m, normalised, rival, type Shape } from "./engine.ts";

type View = { search(query: Float32Array, k: number, threads: number): { keys: BigUint64Array } };

function open({ metric, dimension, directory, efConstruction }: Shape, quantization: "f32" | "i8"): Engine {
  const { Index } = rival("usearch");
  const prepared = metric === "cosine" ? normalised : (values: Float32Array) => values;
  const make = (ef: number) =>
    new Index({
      dimensions: dimension,
      // For rows of length 1 the inner product equals the cosine and is cheaper.
      metric: metric === "euclidean" ? "l2sq" : "ip",
      quantization,
      connectivity: m,
      expansion_add: efConstruction,
      expansion_search: ef,
      multi: false,
    });
  const path = join(directory, "index.usearch");
  let whole = make(efConstruction);
  const views = new Map<number, View>();
  return {
    add: (items, first) =>
      items.forEach(
        ({ vector }, i) => void whole.add(BigInt(first + i), prepared(vector as Float32Array), 1),
      ),
    finish() {
      whole.save(path);
      whole = undefined;
    },
    bytes: () => statSync(path).size,
    prepare: ({ vector }) => prepared(vector as Float32Array),
    search(query: Float32Array, k, ef) {
      let view = views.get(ef);
      if (view === undefined) {
        const opened = make(ef);
        opened.view(path);
        views.set(ef, opened);
        view = opened as View;
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
    open: (shape) => open(shape, "f32"),
  },
  {
    name: "usearch-i8",
    title: "usearch 2.26.2 i8",
    isMappedOften: true,
    note: "Cosine only. Its codes are not scored again, for it has no such step.",
    // Two vectors of one direction get one code, and a distance of 0, whichever the metric.
    refuses: ({ metric }) =>
      metric === "cosine" ? undefined : "its i8 codes keep the direction of a vector and not its length",
    open: (shape) => open(shape, "i8"),
  },
];
