// How does the benchmark use USearch?
//
// The beam of a search is set when an index is constructed. So the finished index is saved once, and each beam gets an index
// of its own that views that file: one graph in memory, many beams.

import { statSync } from "node:fs";
import { join } from "node:path";
import { rival } from "../../shared/engine.ts";
import { type Engine, type EngineKind, efConstruction, m, normalised, type Shape } from "../engine.ts";

function open({ metric, dimension, directory }: Shape, quantization: "f32" | "i8"): Engine {
  const { Index } = rival("usearch");
  const prepare = metric === "cosine" ? normalised : (values: Float32Array) => values;
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
  const views = new Map<
    number,
    { search(query: Float32Array, k: number, threads: number): { keys: BigUint64Array } }
  >();
  return {
    add: (rows, first) => rows.forEach((row, i) => void whole.add(BigInt(first + i), prepare(row), 1)),
    finish() {
      whole.save(path);
      whole = undefined;
    },
    bytes: () => statSync(path).size,
    prepare,
    search(query: Float32Array, k, ef) {
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
