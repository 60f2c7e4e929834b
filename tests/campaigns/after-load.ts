// Is a search as fast right after a load as it is later?
//
//   node tests/campaigns/after-load.ts [--records 20000] [--dimension 384] [--seconds 0,1,5,30] [--only TEXT] [--threads 2] [--judge]
//
// Records come in each of the ways below, while a connection of its own searches ten times a second, and the campaign waits as the documents
// say. Then it opens six fresh connections at each of the
// given seconds, and searches on each of them, one search at a time: every kind of search, with and without a filter of a tenth of the
// records. The same is measured in the steady state: after a further write, and a rest as long as the one before the moment, of at least
// four seconds. (The first searches after any rest take longer: caches of the processor are cold, in the client, too.) Meanwhile
//
//   - every record is visible: they are counted, and words, sparse dimensions and a vector that only one record has find it;
//   - dense recall is at least that of the steady state less `recallMargin`;
//   - every connection searches for twelve with the beam that the status tells, or scans if it tells none: what the recall watch has measured is
//     published without a write.
//
// The median of each kind of search on each connection is compared with its median in the steady state: with --judge, on an otherwise idle
// machine, it is at most `atOnceMax` times at once and `laterMax` times from five seconds on. A difference below `noiseMs` counts as none.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Collection, QuiverClient, RecordInput } from "@quiverdb/client";
import { randomNumbers } from "@quiverdb/kernels/random";
import { command, type Say, say, TemporaryFolder } from "./campaign.ts";
import type { Figures } from "./figures.ts";
import { adminKey, main, patience, ServerProcess } from "./server-process.ts";
import { quantile } from "./soak-watch.ts";

const connections = 6;
/** Searches of each kind on each connection at a moment. */
const rounds = 24;
/** Queries whose recall is measured at a moment. */
const recallQueries = 40;
const topK = 10;
const groups = 10;
const batchRecords = 100;
/** Rest before the steady state is measured: merges at rest and the recall watch have run. */
const restMs = 4_000;

const judged = { atOnce: 3, later: 1.2 };
const laterSeconds = 5;
const recallMargin = 0.01;
const noiseMs = 0.3;
/** Milliseconds between two searches while records come. */
const meanwhileMs = 100;
/** Milliseconds until all threads search with what was measured. */
const publishMsMax = 2_000;

export type AfterLoadOptions = {
  readonly records: number;
  readonly dimension: number;
  /** Seconds after the wait at which it measures, separated by commas. */
  readonly seconds: string;
  /** Only ways whose names contain this text. */
  readonly only: string;
  /** Serving threads; 0 for the default. */
  readonly threads: number;
  readonly seed: number;
};

/** The medians of a moment in milliseconds, by kind of search and then by connection, and what dense searches found. */
type Moment = {
  readonly medians: ReadonlyMap<string, readonly number[]>;
  readonly found: readonly (readonly string[])[];
};

/** What a way found: the greatest ratio to the steady state by second, its case, and the recalls. */
export type WayResult = {
  readonly way: string;
  readonly steadyRecall: number;
  readonly moments: readonly {
    readonly seconds: number;
    /** Median of each kind of search in the steady state, after a rest as long as the one before this moment. */
    readonly steadyMs: ReadonlyMap<string, number>;
    /** The greatest ratio of the steady state to itself: what noise alone makes of 48 medians. */
    readonly noise: number;
    readonly worst: number;
    readonly worstCase: string;
    readonly worstMs: number;
    readonly recall: number;
  }[];
};

// ---- Data

type Source = { record(i: number, generation: number): RecordInput; query(i: number): Query };
type Query = { vector: number[]; terms: { index: number; value: number }[]; words: string };

/** Clustered vectors, terms and words with a Zipf distribution; each record also has a word and a dimension of its own. */
function sourceOf(dimension: number, seed: number): Source {
  const normalOf = (random: () => number) =>
    Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const random = randomNumbers(seed);
  const centres = Array.from({ length: 100 }, () =>
    Array.from({ length: dimension }, () => normalOf(random)),
  );
  const vectorOf = (own: () => number): number[] => {
    const centre = centres[Math.floor(own() * centres.length)];
    return centre.map((value) => Math.fround(0.6 * value + normalOf(own)));
  };
  const zipf = (own: () => number, count: number) => Math.floor(count ** own()) - 1;
  const wordOf = (own: () => number) => `w${zipf(own, 3_000)}`;
  return {
    record(i, generation) {
      const own = randomNumbers(seed + 7 * i + 1_000_003 * generation);
      const terms = new Map([[100_000 + i, 1]]);
      while (terms.size < 21) terms.set(zipf(own, 4_000), 0.1 + own());
      return {
        id: `r${i}`,
        dense_values: vectorOf(own),
        sparse_indices: [...terms.keys()],
        sparse_values: [...terms.values()],
        text: `unique${i} ${Array.from({ length: 20 }, () => wordOf(own)).join(" ")}`,
        metadata: { n: i, group: i % groups },
      };
    },
    query(i) {
      const own = randomNumbers(seed - 1 - i);
      const terms = new Map<number, number>();
      while (terms.size < 8) terms.set(zipf(own, 4_000), 0.1 + own());
      return {
        vector: vectorOf(own),
        terms: [...terms].map(([index, value]) => ({ index, value })),
        words: Array.from({ length: 3 }, () => wordOf(own)).join(" "),
      };
    },
  };
}

const cases: Readonly<Record<string, (query: Query) => object>> = {
  dense: ({ vector }) => ({ query_vector: vector }),
  sparse: ({ terms }) => ({ query_terms: terms }),
  "tf-idf": ({ words }) => ({ query: words }),
  hybrid: ({ vector, words }) => ({ query_vector: vector, query_text: words }),
};
const filters: Readonly<Record<string, object>> = { "": {}, " filtered": { filter: { group: 3 } } };

// ---- Measuring

/** Of a search or a count. */
type Answer = {
  readonly results: readonly { readonly id: string }[];
  readonly count: number;
  readonly legs?: { readonly dense?: { readonly way: string; readonly beam?: number } };
};

/** An answer with another status than 200. */
class Refused extends Error {
  override readonly name = "Refused";
}

/** Errors of a connection to a server that is away. */
const unreachable = new Set<string | undefined>(["ECONNREFUSED", "ECONNRESET", "EPIPE"]);

/** One connection of its own, from the first request on. */
class Connection {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  async post(path: string, body: object): Promise<{ ms: number; answer: Answer }> {
    const text = JSON.stringify(body);
    const beganMs = performance.now();
    const sent = request(`${this.#url}/vectordb/collections/${name}${path}`, {
      method: "POST",
      agent: this.#agent,
      headers: {
        authorization: `Bearer ${adminKey}`,
        "content-type": "application/json",
        "content-length": Buffer.byteLength(text),
      },
    });
    sent.end(text);
    const [response] = await once(sent, "response");
    let read = "";
    for await (const chunk of response.setEncoding("utf8")) read += chunk;
    const ms = performance.now() - beganMs;
    if (response.statusCode !== 200) throw new Refused(`POST ${path}: ${response.statusCode} ${read}`);
    return { ms, answer: JSON.parse(read) };
  }

  close(): void {
    this.#agent.destroy();
  }
}

const name = "records";

type Stage = {
  readonly server: ServerProcess;
  readonly source: Source;
  /** The numbers of its records, ascending. */
  readonly present: readonly number[];
  /** Records with smaller numbers have been updated. */
  readonly updatedEnd: number;
};

async function measure(stage: Stage): Promise<Moment> {
  const { server, source } = stage;
  const open = Array.from({ length: connections }, () => new Connection(server.url));
  try {
    const times = new Map<string, number[][]>();
    for (let round = 0; round < rounds; round++) {
      for (const [kind, bodyOf] of Object.entries(cases))
        for (const [filtered, filter] of Object.entries(filters)) {
          const key = kind + filtered;
          const lists = times.get(key) ?? open.map(() => []);
          times.set(key, lists);
          for (const [i, connection] of open.entries()) {
            const body = { ...bodyOf(source.query(round * connections + i)), top_k: topK, ...filter };
            lists[i].push((await connection.post(`/search/${kind}`, body)).ms);
          }
        }
      if (round === 0) await assertVisible(open, stage);
    }
    const medians = new Map([...times].map(([key, lists]) => [key, lists.map((ms) => quantile(ms, 0.5))]));
    return { medians, found: await nearest(open, source, {}) };
  } finally {
    for (const connection of open) connection.close();
  }
}

/** @throws if a record cannot be found on a connection */
async function assertVisible(open: readonly Connection[], { source, present, updatedEnd }: Stage) {
  for (const [i, connection] of open.entries()) {
    const counted = (await connection.post("/vectors/count", {})).answer.count;
    if (counted !== present.length) throw new Error(`${counted} records of ${present.length} are counted`);
    const record = present[Math.floor((i * (present.length - 1)) / (open.length - 1))];
    const { dense_values } = source.record(record, record < updatedEnd ? 1 : 0);
    for (const [path, body] of [
      ["/search/tf-idf", { query: `unique${record}` }],
      ["/search/sparse", { query_terms: [{ index: 100_000 + record, value: 1 }] }],
      ["/search/dense", { query_vector: dense_values, exact: true }],
    ] as const) {
      const { results } = (await connection.post(path, body)).answer;
      if (results[0]?.id !== `r${record}`)
        throw new Error(`r${record} is not found by ${path}: ${JSON.stringify(results.slice(0, 2))}`);
    }
  }
}

/** @throws if a connection searches with another beam than the status tells */
async function assertPublished({ server, source }: Stage, collection: Collection): Promise<void> {
  const beginsMs = performance.now();
  for (;;) {
    const told = (await collection.indexes()).dense?.status.ef_search_effective;
    // Searches for more than ten do not end by distance: they have the beam that the status tells.
    const body = { query_vector: source.query(0).vector, top_k: topK + 2, explain: true };
    const open = Array.from({ length: connections }, () => new Connection(server.url));
    const legs = await Promise.all(
      open.map(async (each) => (await each.post("/search/dense", body)).answer.legs?.dense),
    );
    for (const each of open) each.close();
    if (legs.every((leg) => leg !== undefined && leg.beam === told)) return;
    if (performance.now() - beginsMs > publishMsMax)
      throw new Error(`the status tells a beam of ${told}, and searches have ${JSON.stringify(legs)}`);
  }
}

/** The ids that dense searches find. */
async function nearest(open: readonly Connection[], source: Source, how: object): Promise<string[][]> {
  const found: string[][] = [];
  for (let i = 0; i < recallQueries; i++) {
    const body = { query_vector: source.query(i).vector, top_k: topK, ...how };
    const { answer } = await open[i % open.length].post("/search/dense", body);
    found.push(answer.results.map(({ id }) => id));
  }
  return found;
}

function recallOf({ found }: Moment, truth: readonly string[][]): number {
  const met = found.map((ids, i) => ids.filter((id) => truth[i].includes(id)).length);
  return met.reduce((sum, count) => sum + count, 0) / (topK * truth.length);
}

// ---- Ways

type Place = { server: ServerProcess; client: QuiverClient; collection: Collection };
type Way = {
  readonly name: string;
  /** Whether the collection with its records and indexes is to be there already. */
  readonly isLoaded: boolean;
  /** What the user does and waits for. @returns the numbers of the records that there are then, ascending */
  act(run: Run): Promise<readonly number[]>;
  /** The share of the records, the first ones, that are updated. */
  readonly updatedShare?: number;
};

class Run {
  readonly folder: TemporaryFolder;
  readonly source: Source;
  readonly options: AfterLoadOptions;
  place!: Place;

  constructor(folder: TemporaryFolder, options: AfterLoadOptions) {
    this.folder = folder;
    this.options = options;
    this.source = sourceOf(options.dimension, options.seed);
  }

  async start(): Promise<void> {
    const { threads } = this.options;
    const flags = [...patience, ...(threads > 0 ? ["--serving-threads", String(threads)] : [])];
    const server = await new ServerProcess(this.folder.join("data"), { flags }).ready();
    const client = await server.client();
    this.place = { server, client, collection: client.collection(name) };
  }

  async create(hasIndexes = true): Promise<void> {
    const { dimension } = this.options;
    const { client } = this.place;
    if ((await client.listCollections()).some((each) => each.name === name))
      await client.deleteCollection(name);
    await client.createCollection({
      name,
      dense_vector: { enabled: true, dimension },
      sparse_vector: { enabled: true },
      tf_idf_options: { enabled: true },
    });
    if (hasIndexes) await this.createIndexes();
  }

  async createIndexes(): Promise<void> {
    const { collection } = this.place;
    await collection.createDenseIndex({ distance_metric_type: "cosine" });
    await collection.createSparseIndex({});
    await collection.createTextIndex({});
  }

  /** The numbers of all records. */
  all(): readonly number[] {
    return Array.from({ length: this.options.records }, (_, i) => i);
  }

  /** The records from one number to another. */
  *batches(from = 0, to = this.options.records, generation = 0): Generator<RecordInput[]> {
    for (let at = from; at < to; at += batchRecords)
      yield Array.from({ length: Math.min(batchRecords, to - at) }, (_, i) =>
        this.source.record(at + i, generation),
      );
  }

  async stream(lanes: number): Promise<void> {
    const batches = this.batches();
    await Promise.all(
      Array.from({ length: lanes }, async () => {
        for (const batch of batches) await this.place.collection.upsert(batch);
      }),
    );
  }

  /** What the rest of the campaign stands on. */
  async load(): Promise<void> {
    await this.create();
    await this.stream(8);
    await this.place.collection.waitForIndex();
  }
}

const ways: readonly Way[] = [
  ...[1, 8].map((lanes) => ({
    name: `streaming by ${lanes}`,
    isLoaded: false,
    async act(run: Run) {
      await run.create();
      await run.stream(lanes);
      await run.place.collection.waitForIndex();
      return run.all();
    },
  })),
  {
    name: "transaction",
    isLoaded: false,
    async act(run) {
      await run.create();
      const transaction = await run.place.collection.transaction();
      for (const batch of run.batches()) await transaction.upsert(batch);
      await transaction.commit({ waitForIndex: true });
      return run.all();
    },
  },
  {
    name: "import",
    isLoaded: false,
    async act(run) {
      await run.create();
      const file = run.folder.join("records.ndjson");
      const lines = [...run.batches()].flat().map((record) => JSON.stringify(record));
      writeFileSync(file, `${lines.join("\n")}\n`);
      const args = ["import", name, file, "--url", run.place.server.url, "--api-key", adminKey];
      const child = spawn(process.execPath, [main, ...args, "--wait-for-index"], {
        stdio: ["ignore", "ignore", "pipe"],
      });
      let said = "";
      child.stderr.setEncoding("utf8").on("data", (text: string) => {
        said += text;
      });
      const [code] = await once(child, "close");
      if (code !== 0) throw new Error(`the import ends with ${code}: ${said}`);
      return run.all();
    },
  },
  {
    name: "index created after the records",
    isLoaded: false,
    async act(run) {
      await run.create(false);
      await run.stream(8);
      await run.createIndexes();
      await run.place.collection.waitForIndex();
      return run.all();
    },
  },
  {
    name: "restart",
    isLoaded: true,
    async act(run) {
      await run.place.server.stop();
      await run.start();
      return run.all();
    },
  },
  {
    name: "kill and restart",
    isLoaded: true,
    async act(run) {
      await run.place.collection.upsert(run.batches(0, batchRecords).next().value as RecordInput[]);
      await run.place.server.kill();
      await run.start();
      return run.all();
    },
  },
  {
    name: "unload and load",
    isLoaded: true,
    async act(run) {
      await run.place.collection.unload();
      await run.place.collection.load();
      return run.all();
    },
  },
  {
    name: "field declared",
    isLoaded: true,
    async act(run) {
      await run.place.collection.createMetadataIndex("group", "number");
      await run.place.collection.waitForIndex();
      return run.all();
    },
  },
  {
    name: "index replaced",
    isLoaded: true,
    async act(run) {
      const { collection } = run.place;
      for (const kind of ["dense", "sparse", "tf-idf"] as const) await collection.deleteIndex(kind);
      await run.createIndexes();
      await collection.waitForIndex();
      return run.all();
    },
  },
  {
    name: "restore from a snapshot",
    isLoaded: true,
    async act(run) {
      const { collection } = run.place;
      const { id } = await collection.createSnapshot();
      await collection.restore({ snapshots: [id], overwrite: true });
      await collection.waitForIndex();
      return run.all();
    },
  },
  {
    name: "a third updated, a third deleted",
    isLoaded: true,
    updatedShare: 1 / 3,
    async act(run) {
      const { collection } = run.place;
      const third = Math.floor(run.options.records / 3);
      for (const batch of run.batches(0, third, 1)) await collection.upsert(batch);
      await collection.deleteMatching({ n: { gte: third, lt: 2 * third } });
      await collection.waitForIndex();
      return run.all().filter((i) => i < third || i >= 2 * third);
    },
  },
];

// ---- The campaign

/** @returns what each way found @throws at a record that cannot be found, or lost recall */
export async function afterLoadCampaign(options: AfterLoadOptions, tell: Say): Promise<WayResult[]> {
  using folder = new TemporaryFolder("after-load");
  const run = new Run(folder, options);
  const results: WayResult[] = [];
  await run.start();
  try {
    let isLoaded = false;
    for (const way of ways.filter((each) => each.name.includes(options.only))) {
      if (way.isLoaded && !isLoaded) await run.load();
      isLoaded = true;
      results.push(await tried(way, run, tell));
    }
    return results;
  } finally {
    await run.place.server.kill();
  }
}

/** Searches while a way acts, so that every thread has seen the indexes as they were before. @returns how many were answered */
async function searchUntil(end: AbortSignal, run: Run): Promise<number> {
  let answers = 0;
  while (!end.aborted) {
    await sleep(meanwhileMs);
    // Each on a connection of its own: with several serving threads they come to all of them.
    const connection = new Connection(run.place.server.url);
    try {
      await connection.post("/search/dense", { query_vector: run.source.query(answers).vector, top_k: topK });
      answers++;
    } catch (error) {
      // The server, the collection or the index may be away for a time.
      if (!(error instanceof Refused || unreachable.has((error as NodeJS.ErrnoException).code))) throw error;
    } finally {
      connection.close();
    }
  }
  return answers;
}

async function tried(way: Way, run: Run, tell: Say): Promise<WayResult> {
  const { records } = run.options;
  const seconds = run.options.seconds.split(",").map(Number);
  const acted = new AbortController();
  const [present, answers] = await Promise.all([
    way.act(run).finally(() => acted.abort()),
    searchUntil(acted.signal, run),
  ]);
  if (!way.isLoaded && answers === 0) throw new Error(`${way.name}: no search was answered meanwhile`);
  let beganMs = performance.now();
  const { server, collection } = run.place;
  const updatedEnd = Math.floor((way.updatedShare ?? 0) * records);
  const stage: Stage = { server, source: run.source, present, updatedEnd };
  const measuredAfter = async (ms: number): Promise<Moment> => {
    await sleep(Math.max(0, beganMs + ms - performance.now()));
    return measure(stage);
  };
  const moments: Moment[] = [];
  for (const at of seconds) moments.push(await measuredAfter(1_000 * at));
  await assertPublished(stage, collection);
  // The last record is written once more, as it is: exact results stay the same.
  const last = present.at(-1) as number;
  await collection.upsert([run.source.record(last, last < updatedEnd ? 1 : 0)]);
  await collection.waitForIndex();
  // The same rests as before, but none shorter than `restMs`.
  beganMs = performance.now();
  const rests = seconds.map((at) => Math.max(restMs, 1_000 * at));
  const steady = new Map<number, Moment>();
  for (const ms of new Set(rests)) steady.set(ms, await measuredAfter(ms));
  const exactly = new Connection(server.url);
  const truth = await nearest([exactly], run.source, { exact: true });
  exactly.close();
  const steadyRecall = Math.max(...[...steady.values()].map((moment) => recallOf(moment, truth)));
  const result: WayResult = {
    way: way.name,
    steadyRecall,
    moments: moments.map((moment, i) => {
      const { medians } = steady.get(rests[i]) as Moment;
      const steadyMs = new Map([...medians].map(([key, each]) => [key, quantile([...each], 0.5)]));
      const { worst: noise } = worstOf(steady.get(rests[i]) as Moment, steadyMs);
      const recall = recallOf(moment, truth);
      return { seconds: seconds[i], steadyMs, noise, ...worstOf(moment, steadyMs), recall };
    }),
  };
  tell(lineOf(result));
  for (const { recall, seconds: at } of result.moments)
    if (recall < steadyRecall - recallMargin)
      throw new Error(`${way.name}: after ${at} s the recall is ${recall}, and later ${steadyRecall}`);
  return result;
}

function worstOf(moment: Moment, steadyMs: ReadonlyMap<string, number>) {
  let worst = { worst: 0, worstCase: "", worstMs: 0 };
  for (const [key, each] of moment.medians)
    for (const ms of each) {
      const steady = steadyMs.get(key) as number;
      const ratio = ms - steady < noiseMs ? Math.min(1, ms / steady) : ms / steady;
      if (ratio > worst.worst) worst = { worst: ratio, worstCase: key, worstMs: ms };
    }
  return worst;
}

const rounded = (value: number, digits = 2) => value.toFixed(digits);

function lineOf({ way, moments, steadyRecall }: WayResult): string {
  const at = moments.map(
    ({ seconds, worst, worstCase, worstMs, recall, steadyMs, noise }) =>
      `${seconds} s: ${rounded(worst)}, noise ${rounded(noise)} (${worstCase} ${rounded(worstMs)} ms instead of ${rounded(steadyMs.get(worstCase) ?? 0)}, recall ${rounded(recall, 3)})`,
  );
  return `${way}: ${at.join("; ")}; steady recall ${rounded(steadyRecall, 3)}`;
}

/** What took longer than it may. */
export const missesOf = (results: readonly WayResult[], most: { atOnce: number; later: number }): string[] =>
  results.flatMap(({ way, moments }) =>
    moments.flatMap(({ worst, worstCase, seconds }) =>
      worst > (seconds >= laterSeconds ? most.later : most.atOnce)
        ? [`${way}: after ${seconds} s ${worstCase} takes ${rounded(worst)} times as long`]
        : [],
    ),
  );

function figuresOf(results: readonly WayResult[]): Figures {
  const ways = results.map(({ way, moments }) => [
    way,
    moments.map(({ worst, noise }) => `${rounded(worst)} (${rounded(noise)})`).join(", "),
  ]);
  const moments = results[0]?.moments.map(({ seconds }) => seconds) ?? [];
  return { "seconds after it": moments.join(", "), ...Object.fromEntries(ways) };
}

if (import.meta.main)
  await command({
    name: "after-load",
    options: { records: 20_000, dimension: 384, seconds: "0,1,5,30", only: "", threads: 0, judge: false },
    isWhole: ({ only }) => only === "",
    run: async ({ judge, ...options }) => {
      const results = await afterLoadCampaign(options, say);
      const misses = judge ? missesOf(results, judged) : [];
      for (const miss of misses) say(`missed: ${miss}`);
      if (misses.length > 0) process.exitCode = 1;
      return figuresOf(results);
    },
  });
