// How much slower are searches while an agent writes what it learns?
//
//   npm run bench agent [-- --records 20000 --writes 500 --searches 200 --rounds 3 --seconds 10]
//
// One server in its own process, on the cores of its clients. Searches are sent at their times, whether or not earlier ones were answered; in
// every second round, single records are upserted at theirs. The records are new in each round. Recall is that of searches right after the
// writes, against exact ones.

import { mkdtempSync, rmSync } from "node:fs";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { median, overRounds, quantile } from "../shared/figures.ts";
import { readOptions } from "../shared/options.ts";
import { publish } from "../shared/publish.ts";
import { untilQuiet } from "../shared/quiet.ts";
import type { Measured, Row } from "../shared/results.ts";
import { definitionOf, questions, recordsOf, topK } from "./data.ts";
import { clientOf, fill, Refused, startQuiver } from "./measured-server.ts";

const asJson = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
/** Requests that wait for an answer, at most. */
const openMax = 256;

type Acted = { readonly ms: number[]; readonly refused: number };

/** Acts at its times for some seconds. @returns milliseconds of each that was not refused, from when it was sent */
async function atRate(
  perSecond: number,
  seconds: number,
  act: (i: number) => Promise<unknown>,
): Promise<Acted> {
  const ms: number[] = [];
  let refused = 0;
  const running = new Set<Promise<void>>();
  const begun = performance.now();
  for (let i = 0; i < perSecond * seconds; i++) {
    const wait = begun + (i * 1_000) / perSecond - performance.now();
    if (wait > 0) await sleep(wait);
    if (running.size >= openMax) await Promise.race(running);
    const sent = performance.now();
    const one: Promise<void> = act(i)
      .then(
        () => void ms.push(performance.now() - sent),
        (error: unknown) => {
          if (!(error instanceof Refused)) throw error;
          refused++;
        },
      )
      .finally(() => running.delete(one));
    running.add(one);
  }
  await Promise.all(running);
  return { ms, refused };
}

type Round = Acted & { readonly cpuMs: number; readonly recall: number };

async function measure(
  records: number,
  writes: number,
  searches: number,
  rounds: number,
  seconds: number,
): Promise<Measured> {
  const directory = mkdtempSync(join(tmpdir(), "quiver-bench-agent-"));
  const ends: (() => unknown)[] = [];
  try {
    const server = await startQuiver(directory);
    ends.push(() => server.end());
    // Idle connections end before the server ends them (after 72 s): a request that is sent at that moment would fail.
    const agent = () => new Agent({ keepAlive: true, maxSockets: openMax, timeout: 30_000 });
    const [reader, writer] = [clientOf(server.url, agent()), clientOf(server.url, agent())];
    ends.push(reader.end, writer.end);
    await fill(writer.send, records);
    const path = `/vectordb/collections/${definitionOf(records).name}`;
    const all = recordsOf(records + (rounds + 1) * writes * seconds);
    const upsert = ({ id, vector }: (typeof all)[number]) =>
      writer.send(
        `${path}/streaming/upsert`,
        asJson({ vectors: [{ id, dense_values: Array.from(vector) }] }),
      );

    const search = async (i: number, exact = false): Promise<string[]> => {
      const query = { query_vector: Array.from(questions[i % questions.length]), top_k: topK, exact };
      const { results } = JSON.parse(String(await reader.send(`${path}/search/dense`, asJson(query))));
      return results.map(({ id }: { id: string }) => id);
    };
    const recall = async (): Promise<number> => {
      let met = 0;
      for (let i = 0; i < questions.length; i++) {
        const [found, right] = [await search(i), new Set(await search(i, true))];
        met += found.filter((id) => right.has(id)).length;
      }
      return met / (questions.length * topK);
    };
    let written = records;
    const round = async (isWriting: boolean): Promise<{ found: Round; wrote: Acted }> => {
      await untilQuiet(server.cpuMs);
      const before = await server.cpuMs();
      const [found, wrote] = await Promise.all([
        atRate(searches, seconds, search),
        isWriting ? atRate(writes, seconds, () => upsert(all[written++])) : { ms: [], refused: 0 },
      ]);
      const cpuMs = (await server.cpuMs()) - before;
      return { found: { ...found, cpuMs, recall: await recall() }, wrote };
    };
    const [alone, beside]: [Round[], Round[]] = [[], []];
    const wrote: Acted[] = [];
    for (let i = 0; i <= rounds; i++) {
      const own = await round(false);
      const both = await round(true);
      // The first one warms up.
      if (i === 0) continue;
      alone.push(own.found);
      beside.push(both.found);
      wrote.push(both.wrote);
    }
    const refusedOf = (of: readonly Acted[]) => of.reduce((sum, { refused }) => sum + refused, 0);
    const at = (ms: readonly number[], share: number) => quantile(Float64Array.from(ms), share);
    const latencies = (of: readonly Acted[]) => ({
      ...overRounds(
        "p50Ms",
        of.map(({ ms }) => at(ms, 0.5)),
      ),
      ...overRounds(
        "p99Ms",
        of.map(({ ms }) => at(ms, 0.99)),
      ),
      refused: refusedOf(of),
    });
    const rowOf = (what: string, of: readonly Round[]): Row => ({
      searches: what,
      ...latencies(of),
      recall: Math.min(...of.map(({ recall: each }) => each)),
      serverCpuShare: median(of.map(({ cpuMs }) => cpuMs / (1_000 * seconds))),
    });
    const times = (share: number) => beside.map(({ ms }, i) => at(ms, share) / at(alone[i].ms, share));
    return {
      key: "all",
      title: `Searches beside ${writes} writes a second, ${records} x 768 and more`,
      options: { records, writes, searches, rounds, seconds, k: topK },
      rows: [
        rowOf("alone", alone),
        {
          ...rowOf("beside writes", beside),
          p50Times: median(times(0.5)),
          ...overRounds("p99Times", times(0.99)),
        },
        { searches: "the writes", ...latencies(wrote) },
      ],
    };
  } finally {
    for (const end of ends.toReversed()) await end();
    rmSync(directory, { recursive: true, force: true });
  }
}

const { values, isKept } = readOptions(
  {},
  { records: "20000", writes: "500", searches: "200", rounds: "3", seconds: "10" },
);
const [records, writes, searches, rounds, seconds] = [
  values.records,
  values.writes,
  values.searches,
  values.rounds,
  values.seconds,
].map(Number);
publish("agent", await measure(records, writes, searches, rounds, seconds), isKept);
