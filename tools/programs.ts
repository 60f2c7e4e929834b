// Which campaigns and benchmarks are there, and how is one started?
//
//   npm run campaign NAME [-- options]     a long test: tests/campaigns, or another long run of a test
//   npm run bench NAME [-- options]        a benchmark
//
// Without a name, what there is is printed. Options that are given come after those of the table, so they win.

import { join } from "node:path";
import { endOf, startNode } from "./children.ts";
import { misuse } from "./options.ts";

type Program = {
  /** From the root of the project. */
  readonly file: string;
  readonly options?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly what: string;
};

const campaign = (name: string, what: string, options?: string): [string, Program] => [
  name,
  { file: `tests/campaigns/${name}.ts`, what, ...(options !== undefined && { options }) },
];
const bench = (name: string, file: string, what: string, options?: string): [string, Program] => [
  name,
  { file: `bench/${file}.ts`, what, ...(options !== undefined && { options }) },
];

const campaigns = new Map<string, Program>([
  campaign(
    "after-load",
    "searches on fresh connections right after each way of loading, beside the steady state",
    "--judge --figures",
  ),
  campaign("backup", "120 backups, full and incremental, of a server that is killed under load", "--figures"),
  campaign(
    "cluster",
    "500 faults of nodes and NATS servers under load, checked for a serial order; needs nats-server, takes hours",
    "--faults 500 --figures",
  ),
  campaign("corruption", "300 damaged places of a data directory, with check and repair", "--figures"),
  campaign(
    "failing-disks",
    "150 trials with a disk that fails writes, syncs or names; needs gcc",
    "--figures",
  ),
  campaign(
    "failing-steps",
    "each step of building, checkpoints, merges and repairs throws, once and three times",
  ),
  campaign(
    "failpoints",
    "a server killed at each of its failpoints, at the first three passages",
    "--figures",
  ),
  campaign("fairness", "a well-behaved client during each attack that once blocked a server", "--figures"),
  campaign(
    "fuzz",
    "310,000 valid, nearly valid and hostile requests, raw connections, damaged import files",
    "--rounds 31 --requests 10000 --attacks 100 --imports 3 --figures",
  ),
  campaign(
    "histories",
    "ten minutes of concurrent clients, restarts and kills, checked for a serial order",
    "--seconds 600 --restart 15 --figures",
  ),
  campaign("import-kill", "16 imports of 100,000 vectors with the server killed in the middle", "--runs 16"),
  campaign("kill", "1,000 kills of a server under mixed load", "--figures"),
  campaign(
    "model",
    "2,000 random sequences over every endpoint of a server that is stopped and killed, against the model",
    "--sequences 2000 --figures",
  ),
  [
    "model-in-process",
    {
      file: "node_modules/vitest/vitest.mjs",
      options: "run tests/model.test.ts",
      env: { QUIVER_RUNS: "2000", QUIVER_TEST_SEED: "random" },
      what: "2,000 random sequences against the model in one process; QUIVER_TEST_SEED repeats one",
    },
  ],
  campaign(
    "odd-data",
    "the dense index on a hundred kinds of odd data, beside hnswlib; takes hours, --short takes minutes",
  ),
  [
    "properties",
    {
      file: "node_modules/vitest/vitest.mjs",
      options: "run",
      env: { QUIVER_TEST_SEED: "random" },
      what: "every test, with other random cases than those of `npm test`; QUIVER_TEST_SEED repeats them",
    },
  ],
  campaign("power-loss", "1,000 images of a disk after a power loss; needs gcc", "--figures"),
  campaign(
    "readers",
    "100,000 answers of threads that search the collections of others, each compared with brute force",
  ),
  campaign(
    "counter",
    "64 clients increment one counter by conditional writes, while the server is killed",
    "--figures",
  ),
  campaign(
    "time-travel",
    "50 of 500 versions compared with collections of their records, while the server is killed",
    "--figures",
  ),
  campaign("restart", "100 restarts right after SIGKILL", "--figures"),
  campaign(
    "security",
    "20,000 wrong keys, 300 limited keys, 10,000 requests of a key with a filter, hostile keys and texts",
    "--guesses 20000 --keys 300 --length 65536 --runs 3 --requests 10000 --figures",
  ),
  campaign("soak", "30 minutes at twice the sustainable load", "--figures"),
]);

/** Each writes bench/results/NAME.json and docs/benchmarks.md; with options that change how it measures, it only prints. */
const benchmarks = new Map<string, Program>([
  bench("page", "page", "writes docs/benchmarks.md from bench/results, and measures nothing"),
  bench("short", "short", "half an hour: the short form of the others, with rivals"),
  bench("dense", "search", "HNSW against rivals", "--benchmark dense"),
  bench(
    "cluster",
    "cluster/main",
    "what a cluster of one to three nodes costs, and what happens when a part ends; needs nats-server",
  ),
  bench(
    "dense-lasting",
    "dense/lasting",
    "a graph in which every vector was replaced three times, against a fresh one",
  ),
  bench("dense-start", "dense/start", "starting with a million vectors"),
  bench(
    "filters",
    "search",
    "filtered dense, sparse and text search at every selectivity, beside rivals",
    "--benchmark filters",
  ),
  bench(
    "growth",
    "search",
    "the whole engine from 10,000 to 1,000,000 records, text to 2,000,000; --lines, --steps",
    "--benchmark growth",
  ),
  bench(
    "agent",
    "rest/agent",
    "searches through REST while single records are written, beside searches alone",
  ),
  bench("ingest", "ingest/main", "the cost of writing through REST by form of the body, and the space taken"),
  bench("memory", "ingest/memory", "what a server's memory consists of, beside Redis and PostgreSQL"),
  bench("overhead", "overhead", "what a search in process costs besides its index, by kind"),
  bench("rest", "rest/main", "what a search through REST costs the server, against node:http alone"),
  bench("servers", "servers/main", "the server beside other servers, with and without filters"),
  bench("sparse", "search", "sparse search against rivals", "--benchmark sparse"),
  bench(
    "sparse-shapes",
    "sparse/ratios",
    "sparse search beside a plain loop, for collections of several shapes",
  ),
  bench("text", "search", "BM25 against rivals", "--benchmark text"),
  bench("text-start", "text/start", "building a text index of a million passages, and a restart with it"),
  bench("versions", "versions", "what kept versions cost, today and at earlier versions"),
  bench("threads", "threads/main", "numbers of serving threads, by throughput, p99 and processor time"),
]);

const kinds: Readonly<Record<string, ReadonlyMap<string, Program>>> = {
  campaign: campaigns,
  bench: benchmarks,
};

const [kind = "", name, ...options] = process.argv.slice(2);
const programs = kinds[kind];
if (programs === undefined)
  misuse(`${kind} is neither campaign nor bench`, "npm run campaign NAME, npm run bench NAME");
const usage = [
  `npm run ${kind} NAME [-- options]`,
  "",
  ...[...programs].map(([known, { what }]) => `  ${known.padEnd(18)}${what}`),
].join("\n");
if (name === undefined || name === "--help" || name === "-h") {
  console.log(usage);
} else {
  const program = programs.get(name) ?? misuse(`There is no ${kind} '${name}'.`, usage);
  const root = join(import.meta.dirname, "..");
  const args = [join(root, program.file), ...(program.options?.split(" ") ?? []), ...options];
  const child = startNode([...process.execArgv, ...args], {
    cwd: root,
    stdio: "inherit",
    env: { ...program.env, ...process.env },
  });
  const { code } = await endOf(child);
  process.exitCode = code ?? 1;
}
