// How does one engine run, alone in a process?
//
// The parent (child.ts) starts this module with the name of a subject (subjects.ts), sends one request at a time and waits for its answer. CPU
// time is that of the whole process, with all threads that the engine starts; nothing else runs in it. The found ids are returned; the parent
// has the ground truth.

import { setTimeout as sleep } from "node:timers/promises";
import { type Engine, kindNamed } from "../engines/engine.ts";
import { subjectNamed } from "../subjects.ts";
import { bytesBelow } from "./files.ts";
import { ownCpuMs } from "./quiet.ts";
import { type Asked, ask } from "./turns.ts";

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

export type Answer = {
  readonly built?: Built;
  readonly asked?: Asked;
  /** Bytes by which the process has grown since it started, after the source data was released. */
  readonly grownBytes?: number;
  /** Why the engine does not support the set. */
  readonly refused?: string;
  readonly error?: string;
};

const batch = 10_000;
const collectMs = 500;
const bytesAtStart = process.memoryUsage.rss();
const subject = subjectNamed(process.argv[2]);
let engine: Engine | undefined;
let queries: unknown[] = [];

async function build({ engine: name, set: setName, rows, directory }: Request & { act: "build" }) {
  const set = subject.read(setName, rows);
  const shape = { ...set.shape, directory };
  const kind = kindNamed(subject.engines, name);
  const refused = kind.refuses?.(shape);
  if (refused !== undefined) return { refused };
  const [before, start] = [ownCpuMs(), performance.now()];
  const opened = await kind.open(shape);
  engine = opened;
  for (let at = 0; at < set.rows.length; at += batch) await opened.add(set.rows.slice(at, at + batch), at);
  await opened.finish?.();
  const seconds = (performance.now() - start) / 1_000;
  await opened.settle?.();
  const cpuS = (ownCpuMs() - before) / 1_000;
  queries = set.queries.map((query) => opened.prepare?.(query) ?? query);
  const bytes = await opened.bytes?.();
  const each = (all: number): number => all / set.rows.length;
  const bytesEach = bytes === undefined ? undefined : each(bytes);
  return { built: { cpuS, seconds, bytesEach, fileBytesEach: each(bytesBelow(directory)) } };
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
  if (request.act === "build") return build(request);
  if (request.act === "weigh") return weigh();
  const { k, effort, count, passes } = request;
  const { search } = engine as Engine;
  return { asked: await ask((query) => search(queries[query] as never, k, effort), count, k, passes) };
}

process.on("message", async (request: Request) => {
  const answer = await answerTo(request).catch((error) => ({ error: String(error).split("\n")[0] }));
  process.send?.(answer);
});

// Exits when the parent is gone.
process.on("disconnect", () => process.exit(0));
