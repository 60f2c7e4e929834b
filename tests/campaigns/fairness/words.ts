// Does the text index of one collection delay the clients of another, and how soon does a killed server serve again?
//
// A client of a small collection writes one record after the other and searches in between, first alone, then while commits of a million
// words that no text had before come to another collection. Then the server is killed. Times are taken until it is ready, and until a search
// finds all texts again. Until then such a search may only be refused with `not_ready`.

import { setTimeout as sleep } from "node:timers/promises";
import { isQuiverError } from "@quiverdb/client";
import { randomNumbers } from "@quiverdb/kernels/random";
import { type Say, TemporaryFolder } from "../campaign.ts";
import type { Figures } from "../figures.ts";
import { patience, ServerProcess } from "../server-process.ts";
import { quantile } from "../soak-watch.ts";

export type WordsOptions = {
  readonly commits: number;
  readonly wordsPerCommit: number;
};

const wordsPerText = 1_000;
const textsPerRequest = 100;
const quietMs = 5_000;
const pauseMs = 20;
/** Promised on an otherwise idle machine. */
const stallMsMax = 250;
const readyMsMax = 5_000;

/** @param miss is told each promise that is broken @throws Error if a search is answered wrongly */
export async function words(
  { commits, wordsPerCommit }: WordsOptions,
  tell: Say,
  miss: Say,
): Promise<Figures> {
  using folder = new TemporaryFolder("fairness-words");
  const start = () => new ServerProcess(folder.join("data"), { flags: patience, isProbed: true });
  const texts = Math.ceil(wordsPerCommit / wordsPerText);
  const figures: Record<string, string> = {};
  const note = (what: string, value: string) => {
    figures[what] = value;
    tell(`${what}: ${value}`);
  };
  {
    await using server = await start().ready();
    const client = await server.client();
    const calm = await client.createCollection({
      name: "calm",
      dense_vector: { enabled: true, dimension: 8 },
    });
    await calm.createDenseIndex({ distance_metric_type: "cosine" });
    const written = await client.createCollection({ name: "words", tf_idf_options: { enabled: true } });
    await written.createTextIndex({});
    const random = randomNumbers(3);
    const vector = () => Array.from({ length: 8 }, () => random() - 0.5);
    let count = 0;
    /** The slowest of each kind of request while `busy` goes on. */
    const beside = async (what: string, busy: Promise<unknown>) => {
      const times = { write: [] as number[], search: [] as number[] };
      const timed = async (into: number[], act: () => Promise<unknown>) => {
        const beganMs = performance.now();
        await act();
        into.push(performance.now() - beganMs);
      };
      let isOver = false;
      const ended = busy.finally(() => {
        isOver = true;
      });
      await server.holds();
      while (!isOver) {
        await timed(times.write, () => calm.upsert([{ id: `c${count++}`, dense_values: vector() }]));
        await timed(times.search, () => calm.search.dense({ query_vector: vector(), top_k: 5 }));
        await sleep(pauseMs);
      }
      await ended;
      const { worstMs } = await server.holds();
      const of = (ms: number[]) =>
        [quantile(ms, 0.5), quantile(ms, 0.99), Math.max(...ms)].map((each) => each.toFixed(1)).join(" / ");
      note(what, `writes ${of(times.write)}, searches ${of(times.search)}, held ${worstMs.toFixed(1)} ms`);
      return Math.max(...times.write, ...times.search);
    };
    await beside("one neighbour, quiet", sleep(Math.min(quietMs, wordsPerCommit)));
    let word = 0;
    const write = async () => {
      for (let commit = 0; commit < commits; commit++) {
        const transaction = await written.transaction();
        for (let first = 0; first < texts; first += textsPerRequest)
          await transaction.upsert(
            Array.from({ length: Math.min(textsPerRequest, texts - first) }, (_, i) => ({
              id: `t${commit}-${first + i}`,
              text: `common ${Array.from({ length: wordsPerText }, () => `w${(word++).toString(36)}x`).join(" ")}`,
            })),
          );
        await transaction.commit();
      }
    };
    const worstMs = await beside(
      `one neighbour beside ${commits} commits of ${wordsPerCommit} new words`,
      write(),
    );
    if (worstMs > stallMsMax)
      miss(`the neighbour waited for ${worstMs.toFixed(0)} ms, more than ${stallMsMax}`);
    await server.kill();
  }
  const beganMs = performance.now();
  await using server = start();
  const client = await server.client();
  await client.waitUntilReady({ timeoutMs: 120_000 });
  const readyMs = performance.now() - beganMs;
  note("ready after a kill", `${(readyMs / 1_000).toFixed(1)} s`);
  const collection = client.collection("words");
  let refused = 0;
  for (;;) {
    try {
      const query = { query: "common", top_k: Math.min(10_000, commits * texts) };
      const { results } = await collection.search.text(query, { retries: 0 });
      if (results.length !== query.top_k)
        throw new Error(`a search after a kill finds ${results.length} of ${query.top_k} texts`);
      break;
    } catch (error) {
      if (!isQuiverError(error) || error.code !== "not_ready") throw error;
      refused++;
      await sleep(100);
    }
  }
  const foundMs = performance.now() - beganMs;
  note(
    "every text found after a kill",
    `${(foundMs / 1_000).toFixed(1)} s, ${refused} searches told that the index lags`,
  );
  if (readyMs > readyMsMax)
    miss(
      `the server was ready ${(readyMs / 1_000).toFixed(1)} s after a kill, not within ${readyMsMax / 1_000}`,
    );
  return figures;
}
