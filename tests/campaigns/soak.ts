// Does a server stay healthy under twice its sustainable load?
//
//   node tests/campaigns/soak.ts [--minutes 30] [--factor 2]
//
// A server runs in its own process, with a memory budget. After some records were written,
//
//   1. the sustainable rate is measured with enough clients to keep it busy, each waiting for its response before the next request;
//   2. then requests are sent at `factor` times that rate, whether they are answered or not (an open loop), at random moments:
//      streaming writes and deletes, reads, and searches of all kinds;
//   3. meanwhile, one after the other: transactions that are committed or aborted, indexes that are deleted and created, collections
//      that are unloaded, loaded, created and deleted, and exports.
//
// Promised, and checked:
//
//   - every response is a success or a proper rejection (429, 503, 504, 507); 429 and 503 have Retry-After
//   - nothing acknowledged is lost, and nothing rejected is stored: the oracle is compared with an export at the end, and again after a
//     restart
//   - the server's memory, its open files and its event-loop lag do not grow; the latency of accepted requests has a
//     bound, and rejections are fast (the last two only on an otherwise idle machine: --minutes 1 or more)
//
// Everything random is derived from the printed seed, except the timing of the machine.

import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { randomNumbers } from "@quiverdb/kernels/random";
import { command, type Say, say, TemporaryFolder } from "./campaign.ts";
import type { Figures } from "./figures.ts";
import { adminKey, ServerProcess } from "./server-process.ts";
import { type Content, contentOf, dimension, type Fate, Oracle } from "./soak-oracle.ts";
import { quantile, type Sample, slopeOf, Watch } from "./soak-watch.ts";

const mib = 2 ** 20;

export type SoakOptions = {
  /** Duration of the overload, without the measurement before. */
  readonly seconds: number;
  readonly seed: number;
  /** Factor of the sustainable rate. */
  readonly factor: number;
  /** Records of the collection that is searched. */
  readonly records: number;
  /** Seconds in which the sustainable rate is measured. */
  readonly measureSeconds: number;
  /** Whether time and memory are checked, which needs an otherwise idle machine and enough time. */
  readonly isJudged: boolean;
};

/** A request without a response for this long counts as hanging. */
const hangMs = 60_000;
/** The timeout that the requests of the overload send. */
const patienceMs = 20_000;

/** The checked bounds. */
const acceptedP99MsMax = 6_000;
const refusedP99MsMax = 2_000;
const lagP99MsMax = 1_000;
const growthBytesMax = 96 * mib;
const filesMoreMax = 16;

type Answer = { status: number; ms: number; retryAfter: string | undefined; body: string };

/** Sends requests to one server, without waiting for a free connection. */
class Sender {
  readonly #agent = new Agent({ keepAlive: true, maxFreeSockets: 512 });
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  /** The response, or undefined if the connection broke. @throws Error if it hangs */
  send(method: string, path: string, body?: string, timeoutMs = patienceMs): Promise<Answer | undefined> {
    const began = performance.now();
    return new Promise((done, failed) => {
      const headers: Record<string, string | number> = {
        authorization: `Bearer ${adminKey}`,
        "content-type": "application/json",
        "x-quiver-timeout-ms": timeoutMs,
      };
      if (body !== undefined) headers["content-length"] = Buffer.byteLength(body);
      const sent = request({
        port: this.#port,
        host: "127.0.0.1",
        method,
        path,
        headers,
        agent: this.#agent,
      });
      const hangs = setTimeout(() => {
        failed(new Error(`${method} ${path} has no answer after ${hangMs} ms`));
        sent.destroy();
      }, hangMs + timeoutMs);
      sent.on("response", (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () => {
          clearTimeout(hangs);
          done({
            status: response.statusCode as number,
            ms: performance.now() - began,
            retryAfter: response.headers["retry-after"],
            body: Buffer.concat(chunks).toString(),
          });
        });
        response.on("error", () => done(undefined));
      });
      sent.on("error", () => {
        clearTimeout(hangs);
        done(undefined);
      });
      sent.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

const refusals = new Set([429, 503, 504, 507]);

/** Counts of responses, and the first invalid one. */
class Tally {
  readonly statuses = new Map<number, number>();
  readonly acceptedMs: number[] = [];
  readonly refusedMs: number[] = [];
  broken = 0;
  fault: string | undefined;

  /** @param isTimed whether its latency has a bound, unlike, for example, loading a collection */
  note(what: string, answer: Answer | undefined, wanted: readonly number[], isTimed = true): Fate {
    if (answer === undefined) {
      this.broken++;
      this.fault ??= `${what}: the connection broke`;
      return "unknown";
    }
    const { status, ms, retryAfter, body } = answer;
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
    if (wanted.includes(status)) {
      if (isTimed) this.acceptedMs.push(ms);
      return "acknowledged";
    }
    if (!refusals.has(status)) {
      this.fault ??= `${what} was answered with ${status}: ${body.slice(0, 400)}`;
      return "unknown";
    }
    // A request that the deadline stopped has waited for its full timeout.
    if (status !== 504) this.refusedMs.push(ms);
    if ((status === 503 || status === 429) && !(Number(retryAfter) >= 1))
      this.fault ??= `${what} was answered with ${status} without Retry-After`;
    return "refused";
  }

  get total(): number {
    return [...this.statuses.values()].reduce((sum, count) => sum + count, 0);
  }

  count(...statuses: number[]): number {
    return statuses.reduce((sum, status) => sum + (this.statuses.get(status) ?? 0), 0);
  }
}

const base = (name: string) => `/vectordb/collections/${name}`;

const collectionBody = (name: string) =>
  JSON.stringify({
    name,
    dense_vector: { enabled: true, dimension },
    sparse_vector: { enabled: true },
    tf_idf_options: { enabled: true },
    config: {},
    store_raw_text: true,
  });

const indexBodies: readonly [kind: string, body: string][] = [
  [
    "dense",
    JSON.stringify({
      name: "d",
      distance_metric_type: "cosine",
      quantization: { type: "scalar", properties: { data_type: "u8", range: { min: -1, max: 1 } } },
      index: { type: "hnsw", properties: { ef_construction: 64 } },
    }),
  ],
  ["sparse", JSON.stringify({ name: "s", quantization: 64, sample_threshold: 100 })],
  ["tf-idf", JSON.stringify({ name: "t", sample_threshold: 100, k1: 1.2, b: 0.75 })],
];

/** One soak run against a running server. */
class Soak {
  readonly tally = new Tally();
  readonly streaming: Oracle;
  readonly transactional: Oracle;
  readonly #sender: Sender;
  readonly #random: () => number;
  readonly #options: SoakOptions;
  #isOver = false;
  cycles = 0;

  constructor(sender: Sender, options: SoakOptions) {
    this.#sender = sender;
    this.#options = options;
    this.#random = randomNumbers(options.seed);
    this.streaming = new Oracle("s", 2 * options.records, options.seed + 1);
    this.transactional = new Oracle("t", options.records, options.seed + 2);
  }

  /** Repeats a request until it is not rejected, for operations that must happen once. */
  async must(
    method: string,
    path: string,
    body: string | undefined,
    wanted: readonly number[],
  ): Promise<Answer> {
    for (;;) {
      const answer = await this.#sender.send(method, path, body, 120_000);
      const fate = this.tally.note(`${method} ${path}`, answer, wanted, false);
      if (this.tally.fault !== undefined) throw new Error(this.tally.fault);
      if (fate === "acknowledged") return answer as Answer;
      await sleep(1_000 * Number(answer?.retryAfter ?? 1));
    }
  }

  async prepare(): Promise<void> {
    for (const name of ["main", "bulk", "side"]) {
      await this.must("POST", "/vectordb/collections", collectionBody(name), [201]);
      for (const [kind, body] of indexBodies)
        await this.must("POST", `${base(name)}/indexes/${kind}`, body, [201]);
    }
    for (let done = 0; done < this.#options.records; done += 200) {
      const ids = this.streaming.take(200);
      const revision = this.streaming.nextRevision();
      const vectors = ids.map((id) => contentOf(id, revision));
      await this.must("POST", `${base("main")}/streaming/upsert`, JSON.stringify({ vectors }), [200]);
      this.streaming.settle(ids, revision, "acknowledged");
      const others = vectors.slice(0, 50);
      await this.must("POST", `${base("side")}/streaming/upsert`, JSON.stringify({ vectors: others }), [200]);
    }
  }

  /** One request of the mix. */
  async one(): Promise<void> {
    const dice = this.#random();
    if (dice < 0.25) return this.#upsert();
    if (dice < 0.3) return this.#delete();
    if (dice < 0.4) return this.#read();
    return this.#search((dice - 0.4) / 0.6);
  }

  async #upsert(): Promise<void> {
    const ids = this.streaming.take(1 + Math.floor(this.#random() ** 3 * 50));
    if (ids.length === 0) return;
    const revision = this.streaming.nextRevision();
    const body = JSON.stringify({ vectors: ids.map((id) => contentOf(id, revision)) });
    const answer = await this.#sender.send("POST", `${base("main")}/streaming/upsert`, body);
    this.streaming.settle(ids, revision, this.tally.note("an upsert", answer, [200]));
  }

  async #delete(): Promise<void> {
    const ids = this.streaming.take(1);
    if (ids.length === 0) return;
    const wanted = this.streaming.isThere(ids[0]) ? [200, 204] : [200, 204, 404];
    const answer = await this.#sender.send("DELETE", `${base("main")}/vectors/${ids[0]}`);
    this.streaming.settle(ids, null, this.tally.note("a delete", answer, wanted));
  }

  async #read(): Promise<void> {
    const id = `s${Math.floor(this.#random() * 2 * this.#options.records)}`;
    this.tally.note("a read", await this.#sender.send("GET", `${base("main")}/vectors/${id}`), [200, 404]);
  }

  async #search(dice: number): Promise<void> {
    const { dense_values, sparse_indices, sparse_values, text } = contentOf(
      "query",
      Math.floor(this.#random() * 1e6),
    );
    const query_terms = sparse_indices.map((index, i) => [index, sparse_values[i]]);
    const query = text.split(" ").slice(0, 3).join(" ");
    const [kind, body]: [string, object] =
      dice < 0.35
        ? ["dense", { query_vector: dense_values }]
        : dice < 0.5
          ? ["sparse", { query_terms }]
          : dice < 0.65
            ? ["tf-idf", { query, return_raw_text: true }]
            : dice < 0.85
              ? ["hybrid", { query_vector: dense_values, query_text: query }]
              : dice < 0.95
                ? ["batch-dense", { queries: Array.from({ length: 8 }, () => ({ vector: dense_values })) }]
                : ["dense", { query_vector: dense_values, exact: true }];
    const collection = this.#random() < 0.9 ? "main" : "side";
    const answer = await this.#sender.send(
      "POST",
      `${base(collection)}/search/${kind}`,
      JSON.stringify({ top_k: 10, ...body }),
    );
    // An index of the side collection may be gone at the moment.
    this.tally.note(`a ${kind} search`, answer, collection === "side" ? [200, 400] : [200]);
  }

  /** Operations that run in sequence, while requests run in parallel with them. */
  async cycle(): Promise<void> {
    while (!this.#isOver) {
      this.cycles++;
      await this.#transaction(this.cycles % 4 !== 0);
      const [kind, body] = indexBodies[this.cycles % indexBodies.length];
      await this.must("DELETE", `${base("side")}/indexes/${kind}`, undefined, [200, 204]);
      await this.must("POST", `${base("side")}/indexes/${kind}`, body, [201]);
      await this.must("POST", `${base("side")}/unload`, undefined, [200]);
      await this.must("POST", `${base("side")}/load`, undefined, [200]);
      const name = `passing-${this.cycles}`;
      await this.must("POST", "/vectordb/collections", collectionBody(name), [201]);
      await this.must("DELETE", base(name), undefined, [200, 204]);
      await this.must("GET", `${base("side")}/export`, undefined, [200]);
    }
  }

  end(): void {
    this.#isOver = true;
  }

  async #transaction(isCommitted: boolean): Promise<void> {
    const opened = await this.must("POST", `${base("bulk")}/transactions`, undefined, [200, 201]);
    const path = `${base("bulk")}/transactions/${JSON.parse(opened.body).transaction_id}`;
    const revision = this.transactional.nextRevision();
    const ids = this.transactional.take(200);
    for (let from = 0; from < ids.length; from += 50) {
      const vectors = ids.slice(from, from + 50).map((id) => contentOf(id, revision));
      await this.must("POST", `${path}/upsert`, JSON.stringify({ vectors }), [200]);
    }
    await this.must("POST", `${path}/${isCommitted ? "commit" : "abort"}`, undefined, [204]);
    this.transactional.settle(ids, revision, isCommitted ? "acknowledged" : "refused");
  }

  /** Requests per second of `clients`, each waiting for its response. */
  async sustainable(clients: number, seconds: number): Promise<number> {
    const end = performance.now() + 1_000 * seconds;
    let done = 0;
    await Promise.all(
      Array.from({ length: clients }, async () => {
        while (performance.now() < end) {
          await this.one();
          done++;
        }
      }),
    );
    return done / seconds;
  }

  /** Requests at a rate, whether they are answered or not. @returns those that were sent */
  async flood(rate: number, seconds: number): Promise<number> {
    const under: Set<Promise<void>> = new Set();
    const began = performance.now();
    let [sent, due] = [0, 0];
    let failure: unknown;
    while (
      performance.now() - began < 1_000 * seconds &&
      this.tally.fault === undefined &&
      failure === undefined
    ) {
      const now = performance.now() - began;
      for (; due <= now; due += (-Math.log(1 - this.#random()) * 1_000) / rate) {
        sent++;
        const sending = this.one().catch((error: unknown) => {
          failure ??= error;
        });
        under.add(sending);
        void sending.finally(() => under.delete(sending));
      }
      await sleep(Math.max(1, Math.min(5, due - now)));
    }
    await Promise.all(under);
    if (failure !== undefined) throw failure;
    return sent;
  }

  /** Compares the stored records with the oracle. */
  async check(): Promise<number> {
    let records = 0;
    for (const [name, oracle] of [
      ["main", this.streaming],
      ["bulk", this.transactional],
    ] as const) {
      const { body } = await this.must("GET", `${base(name)}/export`, undefined, [200]);
      const lines = body.split("\n").filter((line) => line !== "");
      try {
        records += oracle.check(lines.map((line) => JSON.parse(line) as Content));
      } catch (error) {
        throw new Error(`the collection ${name}: ${(error as Error).message}`);
      }
    }
    return records;
  }
}

async function startServer(dataDir: string): Promise<ServerProcess> {
  const server = new ServerProcess(dataDir, { flags: ["--memory-budget", "1GiB"] });
  await server.client();
  return server;
}

/** Runs one soak. @returns the results. @throws at the first violation */
export async function soak(options: SoakOptions, say: Say): Promise<Figures> {
  using folder = new TemporaryFolder("soak");
  const dataDir = folder.join("data");
  let server = await startServer(dataDir);
  let sender = new Sender(server.port);
  try {
    const run = new Soak(sender, options);
    await run.prepare();
    // The first requests are slower: code is not compiled, caches are empty.
    await run.sustainable(8, options.measureSeconds / 2);
    const rate = await run.sustainable(8, options.measureSeconds);
    say(
      `sustainable: ${rate.toFixed(0)} requests a second; ${options.factor} times as many for ${options.seconds} s`,
    );
    if (run.tally.fault) throw new Error(run.tally.fault);

    const before = { ...Object.fromEntries(run.tally.statuses) };
    run.tally.acceptedMs.length = 0;
    run.tally.refusedMs.length = 0;
    run.tally.statuses.clear();
    const watching = sender;
    const watch = new Watch(server.pid, async () => {
      const answer = await watching.send("GET", "/metrics");
      if (answer?.status !== 200)
        throw new Error(`/metrics was answered with ${answer?.status ?? "nothing"}`);
      return answer.body;
    });
    const cycling = run.cycle();
    // Its failure is reported below; the load stops because of the fault in the tally.
    cycling.catch(() => undefined);
    const sent = await run.flood(options.factor * rate, options.seconds);
    run.end();
    await cycling;
    watch.stop();
    if (run.tally.fault) throw new Error(run.tally.fault);
    say(
      `sent ${sent}; before: ${JSON.stringify(before)}, under overload: ${JSON.stringify(Object.fromEntries(run.tally.statuses))}`,
    );

    const figures = figuresOf(run, rate, sent, watch.samples, options);
    const records = await run.check();
    sender.close();
    await server.stop();
    server = await startServer(dataDir);
    sender = new Sender(server.port);
    const again = new Soak(sender, options);
    Object.assign(again, { streaming: run.streaming, transactional: run.transactional });
    const afterwards = await again.check();
    if (afterwards !== records)
      throw new Error(`${records} records before the restart, ${afterwards} after it`);
    judge(run, watch.samples, options);
    await server.stop();
    return { ...figures, "records compared with the oracle, twice": records };
  } finally {
    sender.close();
    await server.kill();
  }
}

/** After the warm-up, a third of the time. */
const settled = (samples: readonly Sample[]) => samples.slice(Math.floor(samples.length / 3));

function judge({ tally }: Soak, all: readonly Sample[], { isJudged }: SoakOptions): void {
  const samples = settled(all);
  const files = samples.map((sample) => sample.files);
  const half = Math.floor(files.length / 2);
  const moreFiles = Math.max(0, ...files.slice(half)) - Math.max(0, ...files.slice(0, half));
  const wrong: string[] = [];
  const demand = (isTrue: boolean, what: string) => {
    if (!isTrue) wrong.push(what);
  };
  demand(moreFiles <= filesMoreMax, `${moreFiles} files more are open in the second half than in the first`);
  if (isJudged) {
    const growth = growthOf(samples);
    const median = quantile(
      samples.map((sample) => sample.ownBytes),
      0.5,
    );
    const accepted = quantile(tally.acceptedMs, 0.99);
    const refused = quantile(tally.refusedMs, 0.99);
    const lag = quantile(
      samples.map((sample) => sample.lagP99Ms),
      0.9,
    );
    demand(
      growth <= Math.max(growthBytesMax, 0.15 * median),
      `memory grows by ${(growth / mib).toFixed(0)} MiB after the warm-up`,
    );
    demand(accepted <= acceptedP99MsMax, `accepted requests take ${accepted.toFixed(0)} ms (p99)`);
    demand(refused <= refusedP99MsMax, `rejections take ${refused.toFixed(0)} ms (p99)`);
    demand(lag <= lagP99MsMax, `the event loop is ${lag.toFixed(0)} ms late (p99)`);
    demand(tally.refusedMs.length > 0, "nothing was refused: this was no overload");
  }
  if (wrong.length > 0) throw new Error(wrong.join("; "));
}

/** Growth of memory over the samples, by their least-squares line. */
function growthOf(samples: readonly Sample[]): number {
  const seconds = samples.length < 2 ? 0 : samples[samples.length - 1].at - samples[0].at;
  return slopeOf(samples, (sample) => sample.ownBytes) * seconds;
}

function figuresOf(
  run: Soak,
  rate: number,
  sent: number,
  all: readonly Sample[],
  { seconds }: SoakOptions,
): Figures {
  const { tally, streaming, transactional } = run;
  const samples = settled(all);
  const ms = (value: number) => `${value.toFixed(value < 10 ? 1 : 0)} ms`;
  const percentiles = (values: readonly number[], ...ranks: readonly number[]) =>
    ranks.map((rank) => ms(quantile(values, rank))).join(", ");
  const lags = samples.map((sample) => sample.lagP99Ms);
  const owned = samples.map((sample) => sample.ownBytes / mib);
  const files = samples.map((sample) => sample.files);
  return {
    "minutes of overload": (seconds / 60).toFixed(1),
    "requests a second: sustainable, sent": `${Math.round(rate)}, ${Math.round(sent / seconds)}`,
    "requests sent": sent,
    accepted: tally.count(200, 201, 204, 400, 404),
    "refused with 503": tally.count(503),
    "answered 429, 504, 507": [429, 504, 507].map((status) => tally.count(status)).join(", "),
    "other answers, broken connections": tally.broken,
    "latency of accepted requests, p50 and p99": percentiles(tally.acceptedMs, 0.5, 0.99),
    "time to a refusal, p50 and p99": percentiles(tally.refusedMs, 0.5, 0.99),
    "event-loop lag, p99 of a second: median and greatest": percentiles(lags, 0.5, 1),
    "private memory after the warm-up": `${Math.min(...owned).toFixed(0)} to ${Math.max(...owned).toFixed(0)} MiB`,
    "its growth, by least squares": `${(growthOf(samples) / mib).toFixed(1)} MiB`,
    "open files, without connections": `${Math.min(...files)} to ${Math.max(...files)}`,
    "cycles of transaction, index, load, collection, export": run.cycles,
    "writes acknowledged": streaming.acknowledged + transactional.acknowledged,
    "writes refused": streaming.refused,
  };
}

if (import.meta.main)
  await command({
    name: "soak",
    options: { minutes: 30, seed: 1, factor: 2, records: 10_000 },
    run({ minutes, ...options }) {
      const isJudged = minutes >= 1;
      const seconds = 60 * minutes;
      return soak({ ...options, seconds, measureSeconds: isJudged ? 20 : 5, isJudged }, say);
    },
  });
