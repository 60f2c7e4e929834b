// How does one engine run, alone in a process?
//
// Each benchmark has a small module that calls `serve`; the parent (child.ts) starts it, sends one request at a time and waits for its
// answer. CPU time is that of the whole process, with all threads that the engine starts; nothing else runs in it. The found ids are
// returned; the parent has the ground truth.

import { setTimeout as sleep } from "node:timers/promises";
import { type Engine, type EngineKind, type Ids, kindNamed } from "./engine.ts";
import { bytesBelow } from "./files.ts";

export type Request =
  | {
      readonly act: "build";
      readonly engine: string;
      readonly set: string;
      readonly rows?: number;
      readonly directory: string;
    }
  | {
      readonly act: "search";
      readonly k: number;
      readonly effort: number;
      /** The number of queries, taken from the first one on, and the number of passes over them. */
      readonly count: number;
      readonly passes: number;
    }
  | { readonly act: "weigh" };

export type Built = {
  readonly cpuS: number;
  /** From the first row on until all can be searched by the index. */
  readonly seconds: number;
  readonly bytesEach?: number;
  /** Bytes of the files in its directory, for each row; 0 if it has none. */
  readonly fileBytesEach: number;
};

export type Found = {
  /** CPU milliseconds a query, over all of them. */
  readonly cpuMs: number;
  /** Wall milliseconds of each query, pass by pass. */
  readonly wallMs: Float64Array;
  /** k ids for each query, -1 where there are fewer. */
  readonly ids: Int32Array;
};

export type Answer =
  | { readonly built: Built }
  | { readonly found: Found }
  /** Bytes by which the process has grown since it started, after the source data was released. */
  | { readonly grownBytes: number }
  | { readonly refused: string }
  | { readonly error: string };

/** The parts of a benchmark: its engines and the function that reads its sets. */
export type Subject<Shape, Row> = {
  readonly kinds: readonly EngineKind<Shape, Row>[];
  /** All rows of the set, or so many; all of its queries; and what an engine is told before it is given them. */
  read(
    set: string,
    rowsMax: number | undefined,
    directory: string,
  ): { readonly rows: readonly Row[]; readonly queries: readonly Row[]; readonly shape: Shape };
};

const batch = 10_000;
const collectMs = 500;

const cpuMsSince = (before: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
};

/** Answers the parent's requests until the parent exits. */
export function serve<Shape, Row>(subject: Subject<Shape, Row>): void {
  const bytesAtStart = process.memoryUsage.rss();
  let engine: Engine<Row> | undefined;
  let queries: unknown[] = [];

  async function build(request: Request & { act: "build" }): Promise<Answer> {
    const set = subject.read(request.set, request.rows, request.directory);
    const kind = kindNamed(subject.kinds, request.engine);
    const reason = kind.refuses?.(set.shape);
    if (reason !== undefined) return { refused: reason };
    const [before, start] = [process.cpuUsage(), performance.now()];
    const opened = await kind.open(set.shape);
    engine = opened;
    for (let at = 0; at < set.rows.length; at += batch) await opened.add(set.rows.slice(at, at + batch), at);
    await opened.finish?.();
    const seconds = (performance.now() - start) / 1_000;
    await opened.settle?.();
    const cpuS = cpuMsSince(before) / 1_000;
    queries = set.queries.map((query) => opened.prepare?.(query) ?? query);
    const bytes = await opened.bytes?.();
    const each = (all: number): number => all / set.rows.length;
    const fileBytesEach = each(bytesBelow(request.directory));
    return {
      built: { cpuS, seconds, bytesEach: bytes === undefined ? undefined : each(bytes), fileBytesEach },
    };
  }

  async function search({ k, effort, count, passes }: Request & { act: "search" }): Promise<Answer> {
    const { search: ask } = engine as Engine<Row>;
    const found: Ids[] = new Array(count);
    const wallMs = new Float64Array(count * passes);
    const before = process.cpuUsage();
    for (let i = 0; i < count * passes; i++) {
      const start = performance.now();
      const ids = ask(queries[i % count] as never, k, effort);
      found[i % count] = ids instanceof Promise ? await ids : ids;
      wallMs[i] = performance.now() - start;
    }
    const cpuMs = cpuMsSince(before) / wallMs.length;
    const ids = new Int32Array(count * k).fill(-1);
    for (const [i, each] of found.entries()) {
      for (let j = 0; j < Math.min(k, each.length); j++) ids[i * k + j] = Number(each[j]);
    }
    return { found: { cpuMs, wallMs, ids } };
  }

  async function weigh(): Promise<Answer> {
    // The memory of buffers is released in the background, after the collection that found them unused.
    for (let i = 0; i < 2; i++) {
      global.gc?.();
      await sleep(collectMs);
    }
    return { grownBytes: process.memoryUsage.rss() - bytesAtStart };
  }

  async function answerTo(request: Request): Promise<Answer> {
    switch (request.act) {
      case "build":
        return build(request);
      case "search":
        return search(request);
      case "weigh":
        return weigh();
    }
  }

  process.on("message", async (request: Request) => {
    let answer: Answer;
    try {
      answer = await answerTo(request);
    } catch (error) {
      answer = { error: String(error).split("\n")[0] };
    }
    process.send?.(answer);
  });

  // Exits when the parent is gone.
  process.on("disconnect", () => process.exit(0));
}
