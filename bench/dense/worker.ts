// How is one engine built and asked, alone in a process?
//
// The parent sends one request at a time and waits for its answer. CPU time is that of the whole process, with all threads
// that the engine starts; nothing else runs in it. Ids go back as they are found: the parent knows the truth.

import { readSet, shapeOf } from "./data.ts";
import type { Engine, Ids } from "./engine.ts";
import { engineKind } from "./engines.ts";

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
      readonly ef: number;
      /** The first queries, so many of them, and how often they are asked one after the other. */
      readonly count: number;
      readonly passes: number;
    }
  | { readonly act: "weigh" };

export type Built = {
  readonly cpuS: number;
  readonly bytesPerVector?: number;
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
  /** Bytes by which the process has grown since it started; what it was built from has been let go. */
  | { readonly grownBytes: number }
  | { readonly refused: string }
  | { readonly error: string };

const batch = 10_000;
const bytesAtStart = process.memoryUsage.rss();

let engine: Engine | undefined;
let queries: unknown[] = [];

const cpuMsSince = (before: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
};

async function build({
  engine: name,
  set: setName,
  rows: rowsMax,
  directory,
}: Request & { act: "build" }): Promise<Answer> {
  const set = readSet(setName, rowsMax);
  const shape = shapeOf(set, directory);
  const kind = engineKind(name);
  const reason = kind.refuses?.(shape);
  if (reason !== undefined) return { refused: reason };
  const before = process.cpuUsage();
  const opened = await kind.open(shape);
  engine = opened;
  for (let at = 0; at < set.rows.length; at += batch) await opened.add(set.rows.slice(at, at + batch), at);
  await opened.finish?.();
  const cpuS = cpuMsSince(before) / 1_000;
  queries = set.queries.map((query) => opened.prepare?.(query) ?? query);
  return { built: { cpuS, bytesPerVector: opened.bytesPerVector?.() } };
}

async function search({ k, ef, count, passes }: Request & { act: "search" }): Promise<Answer> {
  const { search: ask } = engine as Engine;
  const found: Ids[] = new Array(count);
  const wallMs = new Float64Array(count * passes);
  const before = process.cpuUsage();
  for (let i = 0; i < count * passes; i++) {
    const start = performance.now();
    const ids = ask(queries[i % count] as never, k, ef);
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

function weigh(): Answer {
  global.gc?.();
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

// Without its parent there is nothing to do.
process.on("disconnect", () => process.exit(0));
