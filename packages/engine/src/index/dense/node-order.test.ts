// Does a graph in another order find the same, and lie as it should?

import { none } from "@quiverdb/kernels/hnsw";
import { randomNumbers } from "@quiverdb/kernels/random";
import fc from "fast-check";
import { expect, test } from "vitest";
import { AnsweringBuilders } from "../../../test/index/dense/late-builders.ts";
import { bytesOfFloats } from "../../vector/floats.ts";
import { metrics } from "../../vector/metric.ts";
import type { Outcome, SiteOf, Task } from "../builders.ts";
import { Graph } from "./graph.ts";
import { HnswIndex } from "./hnsw-index.ts";
import type { HnswOptions } from "./hnsw-options.ts";
import { copyInOrder, newSlotsFor } from "./node-order.ts";
import { type GraphJob, graphJobs } from "./tasks.ts";

const dimension = 8;

function vectorsOf(count: number, seed: number): Float32Array[] {
  const next = randomNumbers(seed);
  return Array.from({ length: count }, () => Float32Array.from({ length: dimension }, () => next() - 0.5));
}

const open = (orderedBytesMin: number, more: Partial<HnswOptions> = {}): HnswIndex =>
  new HnswIndex({
    dimension,
    metric: "euclidean",
    dataType: "u8",
    m: 4,
    efConstruction: 24,
    sampleCount: 100,
    orderedBytesMin,
    ...more,
  });

function tidy(index: HnswIndex): void {
  for (let i = 0; i < 1_000 && index.tidy(); i++);
}

/** Records and scores, best first, ties by record. */
const found = (index: HnswIndex, query: Float32Array): [number, number][] => {
  const { ordinals, scores } = index.reader.search(query, 10, { ef: 40 });
  return Array.from(ordinals, (ordinal, i): [number, number] => [ordinal, scores[i]]).sort(
    ([a, scoreA], [b, scoreB]) => scoreB - scoreA || a - b,
  );
};

/** The records that each record leads to, by level. */
function linksByRecord(graph: Graph): Map<number, number[][]> {
  const links = new Map<number, number[][]>();
  const seen = new Set([graph.entry]);
  for (const node of seen) {
    const levels = Array.from({ length: graph.levelOf(node) + 1 }, (_, level) => [
      ...graph.linksOf(node, level),
    ]);
    for (const link of levels[0]) seen.add(link);
    links.set(
      graph.ordinalOf(node),
      levels.map((nodes) => nodes.map((link) => graph.ordinalOf(link))),
    );
  }
  return links;
}

/** How many slots lie between the nodes of a list and the nearest other one, on the average. */
function spread(graph: Graph, nodes: number): number {
  let sum = 0;
  for (let node = 0; node < nodes; node++) {
    const links = [...graph.linksOf(node, 0)].sort((a, b) => a - b);
    for (let i = 1; i < links.length; i++) sum += (links[i] - links[i - 1]) / (links.length - 1);
  }
  return sum / nodes;
}

test("a copy has the same nodes and links, and siblings side by side", () => {
  const index = open(Number.POSITIVE_INFINITY);
  const rows = vectorsOf(3_000, 1);
  rows.forEach((row, ordinal) => void index.add(ordinal, bytesOfFloats(row)));
  const [built] = index.graphs;
  let kinds = new Uint8Array();
  index.save(
    ({ partitions }) => {
      kinds = partitions[0].kinds.slice();
    },
    () => undefined,
  );
  const copy = new Graph(built.shape);
  copy.reserve(built.slots);
  const newSlots = newSlotsFor(built.slots);
  copyInOrder(built, kinds, copy, newSlots);
  copy.restore(built.slots, newSlots[built.entry], newSlots[built.root], []);
  expect([...newSlots].sort((a, b) => a - b)).toEqual(Array.from(newSlots, (_, slot) => slot));
  expect(linksByRecord(copy)).toEqual(linksByRecord(built));
  // Nodes come before the upper slots, and each node's children in one run.
  const ends = new Map<number, number>();
  for (let node = 0; node < rows.length; node++) {
    expect(copy.ordinalOf(node)).toBeLessThan(rows.length);
    const parent = copy.parentOf(node);
    if (node === copy.root) continue;
    expect(ends.get(parent) ?? node - 1).toBe(node - 1);
    ends.set(parent, node);
  }
  expect(spread(copy, rows.length)).toBeLessThan(0.9 * spread(built, rows.length));
});

test("an index orders its graph when a quarter of it is new, and finds the same", () => {
  const rows = vectorsOf(3_000, 1);
  const [plain, ordered] = [open(Number.POSITIVE_INFINITY), open(0)];
  const orderedWorks: (number | undefined)[] = [];
  for (const index of [plain, ordered]) {
    rows.forEach((row, ordinal) => void index.add(ordinal, bytesOfFloats(row)));
    tidy(index);
    index.check();
    index.save(
      ({ orderedWork }) => orderedWorks.push(orderedWork),
      () => undefined,
    );
  }
  expect(orderedWorks[0]).toBe(0);
  expect(orderedWorks[1]).toBeGreaterThan(2_200);
  expect(Buffer.compare(ordered.graphs[0].image, plain.graphs[0].image)).not.toBe(0);
  for (const query of vectorsOf(100, 2)) expect(found(ordered, query)).toEqual(found(plain, query));
});

/** Builders that do their jobs when they are told to, in this thread. */
class WaitingBuilders extends AnsweringBuilders {
  duplicates = 0;
  /** The kind of the newest job. */
  newest = "";
  /** Called in place of a job that copies a graph; undefined: it is done. */
  copy: ((job: GraphJob & { kind: "copy" }) => void) | undefined;

  override run<Request, Answer, Site>(
    task: Task<Request, Answer, Site>,
    request: Request,
    done: Outcome<Answer>,
    site?: SiteOf<Site>,
  ): void {
    if (task.name === graphJobs.name) {
      const job = request as GraphJob;
      this.newest = job.kind;
      if (job.kind === "copy") {
        this.duplicates++;
        const copy = () => this.copy;
        const replaced: typeof task = {
          ...task,
          *run(given, own) {
            const instead = copy();
            if (instead === undefined) return yield* task.run(given, own);
            return instead(job) as Answer;
          },
        };
        super.run(replaced, request, done, site);
        return;
      }
    }
    super.run(task, request, done, site);
  }
}

/** Does everything that there is to do. */
function settle(index: HnswIndex, builders: WaitingBuilders): void {
  for (let idle = 0; idle < 3; ) idle = builders.work() || index.tidy() ? 0 : idle + 1;
}

const addRows = (index: HnswIndex, rows: readonly Float32Array[], from: number, to: number): void => {
  for (let ordinal = from; ordinal < to; ordinal++) index.add(ordinal, bytesOfFloats(rows[ordinal]));
};

test.each<[string, NonNullable<WaitingBuilders["copy"]>]>([
  [
    "the job",
    () => {
      throw new Error("no memory is left");
    },
  ],
  // As if no slot had been copied.
  ["the completion", ({ newSlots }) => void newSlots.fill(none)],
])(
  "[N4] building goes on when a copy fails, by %s: it is counted, and not tried again at once",
  (_what, fail) => {
    const rows = vectorsOf(3_000, 4);
    const builders = new WaitingBuilders();
    const notices: string[] = [];
    const index = open(0, { builders, onNotice: (notice) => notices.push(notice) });
    builders.copy = fail;
    addRows(index, rows, 0, 1_500);
    settle(index, builders);
    expect(index.failedCopies).toBe(1);
    expect(builders.duplicates).toBe(1);
    expect(notices.filter((notice) => notice.includes("could not be copied"))).toHaveLength(1);
    // Fewer than a quarter of the vectors are new.
    addRows(index, rows, 1_500, 1_700);
    settle(index, builders);
    expect(builders.duplicates).toBe(1);
    builders.copy = undefined;
    addRows(index, rows, 1_700, 3_000);
    settle(index, builders);
    expect(builders.duplicates).toBe(2);
    expect(index.failedCopies).toBe(1);
    expect(index.failure).toBeUndefined();
    expect(index.linkedEnd).toBe(Number.POSITIVE_INFINITY);
    index.check();
    const plain = open(Number.POSITIVE_INFINITY);
    addRows(plain, rows, 0, 3_000);
    for (const query of vectorsOf(50, 2)) expect(found(index, query)).toEqual(found(plain, query));
  },
);

test("[R13] a copy is completed in steps, and has what is added and not what is removed between them", () => {
  const rows = vectorsOf(3_000, 5);
  const builders = new WaitingBuilders();
  const index = open(0, { builders });
  const held = new Set<number>();
  let next = 0;
  const add = (count: number): void => {
    addRows(index, rows, next, next + count);
    for (const end = next + count; next < end; next++) held.add(next);
  };
  const remove = (ordinal: number): void => {
    index.remove(ordinal);
    held.delete(ordinal);
  };
  add(2_000);
  for (let duplicates = 0; duplicates === 0; duplicates = builders.duplicates)
    if (!builders.work()) index.tidy();
  const [before] = index.graphs;
  remove(7);
  add(20);
  while (builders.duplicates === 1 && index.graphs[0] === before) {
    remove(next - 1_900);
    add(1);
    if (!builders.work()) index.tidy();
  }
  // Before the job, and after it between the steps.
  expect(next).toBeGreaterThanOrEqual(2_022);
  settle(index, builders);
  index.check();
  expect(index.count).toBe(held.size);
  for (const ordinal of [7, 100, 120, 121, 122, 123, 2_001, next - 1])
    expect(found(index, rows[ordinal])[0][0] === ordinal, `${ordinal}`).toBe(held.has(ordinal));
});

test("[N4] building goes on when all vectors are removed while a copy waits for a sweep", () => {
  const rows = vectorsOf(4_000, 6);
  const builders = new WaitingBuilders();
  const index = open(0, { builders });
  addRows(index, rows, 0, 2_000);
  settle(index, builders);
  const { duplicates } = builders;
  addRows(index, rows, 2_000, 2_600);
  for (let ordinal = 0; ordinal < 150; ordinal++) index.remove(ordinal);
  while (builders.newest !== "redraw" && (builders.work() || index.tidy()));
  expect(builders.newest).toBe("redraw");
  expect(builders.duplicates).toBe(duplicates);
  for (let ordinal = 150; ordinal < 2_600; ordinal++) index.remove(ordinal);
  settle(index, builders);
  expect(index.isIdle).toBe(true);
  addRows(index, rows, 2_600, 4_000);
  settle(index, builders);
  expect(index.tailCount).toBe(0);
  expect(index.failure).toBeUndefined();
  index.check();
});

test("[R13] a copy has no free slots, and whatever goes on later is right", () => {
  const value = fc.integer({ min: -4, max: 4 });
  const vector = fc
    .array(value, { minLength: dimension, maxLength: dimension })
    .map((row) => Float32Array.from(row));
  const act = fc.oneof(
    { weight: 5, arbitrary: fc.record({ kind: fc.constant("add" as const), vector }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant("remove" as const), pick: fc.nat(2_000) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("tidy" as const) }) },
  );
  const rows = vectorsOf(400, 3);
  fc.assert(
    fc.property(fc.array(act, { maxLength: 200, size: "max" }), (acts) => {
      const index = open(0);
      const held = new Map<number, Float32Array>();
      let next = 0;
      const add = (row: Float32Array) => {
        held.set(next, row);
        index.add(next++, bytesOfFloats(row));
      };
      for (const row of rows) add(row);
      for (const each of acts) {
        if (each.kind === "add") add(each.vector);
        else if (each.kind === "remove") {
          const ordinal = [...held.keys()][each.pick % Math.max(1, held.size)];
          if (ordinal !== undefined) index.remove(ordinal);
          held.delete(ordinal);
        } else tidy(index);
      }
      tidy(index);
      index.check();
      expect(index.count).toBe(held.size);
      // Distance 0 to itself or to a copy.
      let itself = 0;
      for (const row of held.values()) if (found(index, row)[0][1] === metrics.euclidean.score(0)) itself++;
      expect(itself).toBeGreaterThanOrEqual(0.95 * held.size);
    }),
    { numRuns: 15 },
  );
});
