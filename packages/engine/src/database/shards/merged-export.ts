// How are lines of all shards read as one?
//
// Records in the order of the versions that wrote them, differences in the order of ids. Each shard has its lines in this order, and parts of
// them are fetched as they are needed.

import { compareText } from "../../base/bytes.ts";
import type { Deadline } from "../../base/deadline.ts";
import type { VectorExport } from "../contract.ts";
import type { ShardOptions } from "./call.ts";
import type { PostedLine } from "./open-lines.ts";
import type { AskedLines } from "./shard.ts";
import type { Shards } from "./shards.ts";

const compare = (a: PostedLine, b: PostedLine): number =>
  typeof a.place === "number" ? a.place - (b.place as number) : compareText(a.place, b.place as string);

/** The lines of one shard. */
class ShardLines {
  readonly #next: () => Promise<{ lines: PostedLine[]; isDone: boolean }>;
  #lines: PostedLine[] = [];
  #at = 0;
  #isDone = false;

  constructor(next: () => Promise<{ lines: PostedLine[]; isDone: boolean }>) {
    this.#next = next;
  }

  async peek(): Promise<PostedLine | undefined> {
    while (this.#at === this.#lines.length && !this.#isDone) {
      const { lines, isDone } = await this.#next();
      [this.#lines, this.#at, this.#isDone] = [lines, 0, isDone];
    }
    return this.#lines[this.#at];
  }

  advance(): void {
    this.#at++;
  }
}

/** Lines of all shards, in one order, until they are released or read to the end. */
type OpenedLines = {
  readonly version: number;
  readonly count: number;
  readonly lines: AsyncGenerator<PostedLine>;
  release(): void;
};

/** @param asked of an export: `at` has the version */
export async function openShards(
  shards: Shards,
  asked: AskedLines,
  { atVersion, isPast, ...at }: ShardOptions,
  deadline: Deadline,
): Promise<OpenedLines> {
  const isDiff = asked.diff !== undefined;
  const args: AskedLines = {
    ...asked,
    ...(isPast && atVersion !== undefined && { version: atVersion }),
  };
  const options = isPast || atVersion === undefined ? at : { ...at, atVersion };
  const close = ({ id }: { id: string }, number: number): void => {
    // What is left open closes by itself.
    shards.ask(number, "closeLines", { id }, deadline).catch(() => undefined);
  };
  const opened = await shards.all("openLines", args, deadline, options, close);
  const sources = opened.map(
    ({ id }, number) => new ShardLines(() => shards.ask(number, "nextLines", { id }, deadline)),
  );
  let isReleased = false;
  const release = (): void => {
    if (isReleased) return;
    isReleased = true;
    for (const [number, lines] of opened.entries()) close(lines, number);
  };
  const lines = async function* (): AsyncGenerator<PostedLine> {
    try {
      if (isDiff) yield await countsOf(sources);
      for (;;) {
        let least: { source: ShardLines; line: PostedLine } | undefined;
        for (const source of sources) {
          const line = await source.peek();
          if (line !== undefined && (least === undefined || compare(line, least.line) < 0))
            least = { source, line };
        }
        if (least === undefined) return;
        least.source.advance();
        yield least.line;
      }
    } finally {
      release();
    }
  };
  const sum = opened.reduce((count, each) => count + each.count, 0);
  // Of differences, each shard has a line with their numbers.
  const count = isDiff ? sum - opened.length + 1 : sum;
  return { version: opened[0].version, count, release, lines: lines() };
}

/** The same, as operations give lines. */
export async function exportShards(
  shards: Shards,
  asked: AskedLines,
  at: ShardOptions,
  deadline: Deadline,
): Promise<VectorExport> {
  const { lines, ...rest } = await openShards(shards, asked, at, deadline);
  const texts = async function* (): AsyncGenerator<{ toJson(): string }> {
    for await (const { text } of lines) yield { toJson: () => text };
  };
  const exported: object = { ...rest, [Symbol.asyncIterator]: texts };
  return exported as VectorExport;
}

/** The first line of differences: how many there are of each kind. */
async function countsOf(sources: readonly ShardLines[]): Promise<PostedLine> {
  const counts: Record<string, number> = {};
  for (const source of sources) {
    const line = await source.peek();
    source.advance();
    for (const [kind, count] of Object.entries(JSON.parse(line?.text ?? "{}") as Record<string, number>))
      counts[kind] = (counts[kind] ?? 0) + count;
  }
  return { place: "", text: JSON.stringify(counts) };
}
