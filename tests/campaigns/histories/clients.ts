// What do the concurrent clients do, and what is recorded in the history?
//
// Keys are records in groups. Every write has a unique stamp, which it stores in each leg of its records: the first value of the dense
// vector, the value of the sparse vector at dimension 0, and the text. So whatever leg a search uses, its response identifies the write of
// each record twice: by the score, from the index or the stored vector, and by the text, from the record.
//
// Ballast records are never found by the searches of the history; they keep the indexes busy in the background.

import { setTimeout as sleep } from "node:timers/promises";
import { adminKey } from "../server-process.ts";
import { absent, type Operation, present, type Read, type Write } from "./checker.ts";

const groups = 6;
const keysPerGroup = 4;
export const keyCount = groups * keysPerGroup;
export const collectionPath = "/vectordb/collections/history";
const ballastCount = 400;
/** More than the number of keys, so that a search shows for each key whether it exists. */
const wholeTopK = keyCount + 6;

/** Versions in responses: of an export, the current version, or a transaction. */
export type Told = {
  readonly begins: number;
  readonly ends: number;
  readonly version: number;
  readonly state?: string;
};

/** Everything that was recorded. */
export class Recording {
  readonly operations: Operation[] = [];
  readonly told: Told[] = [];
  /** The version in the status of each committed transaction, by its stamp. */
  readonly versionOfStamp = new Map<number, number>();
  readonly counts = new Map<string, number>();
  #stamp = 0;

  nextStamp(): number {
    return ++this.#stamp;
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }
}

/** The server as clients see it: running, or about to be restarted. */
export type Target = {
  url(): string;
  /** Resolves when the old server is certainly dead and another one is ready. */
  again(): Promise<void>;
  /**
   * Of a cluster, whose nodes go on when one ends. Requests see what others were told, and transactions whose clients have lost them are
   * aborted when they are idle.
   */
  readonly isCluster?: boolean;
};

type Answer = {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
  readonly begins: number;
  readonly ends: number;
};

/** The connection broke: whether the request had its effect is unknown. */
class Unknown extends Error {
  readonly begins: number;
  readonly ends: number;

  constructor(begins: number, ends: number) {
    super("the outcome is unknown");
    this.begins = begins;
    this.ends = ends;
  }
}

/** A response or an observation that no history can explain. */
class Impossible extends Error {
  override readonly name = "Impossible";
}

export type Random = () => number;

/** In the answer of a node whose log did not answer, or of one that has passed a request on. */
const mayBeApplied = /"applied":"unknown"|is not known/;

/** One client, which sends one request after another. */
export class Client {
  readonly #number: number;
  readonly #target: Target;
  readonly #recording: Recording;
  readonly #random: Random;

  constructor(number: number, target: Target, recording: Recording, random: Random) {
    this.#number = number;
    this.#target = target;
    this.#recording = recording;
    this.#random = random;
  }

  /** Runs operations of one kind until the end. A request with an unknown outcome is part of the history. */
  async run(kind: "writes" | "reads" | "disturbs", isOver: () => boolean): Promise<void> {
    const acts = { writes: this.#writes, reads: this.#reads, disturbs: this.#disturbances }[kind];
    while (!isOver()) {
      try {
        await this.#pick(acts).call(this);
      } catch (error) {
        if (!(error instanceof Unknown)) throw error;
        this.#recording.count("requests that a kill or stop cut off");
      }
    }
  }

  async #ask(method: string, path: string, body?: unknown): Promise<Answer> {
    const begins = performance.now();
    try {
      const response = await fetch(`${this.#target.url()}${collectionPath}${path}`, {
        method,
        headers: {
          authorization: `Bearer ${adminKey}`,
          "content-type": "application/json",
          ...(this.#target.isCluster && { "x-quiver-consistency": "strict" }),
        },
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: AbortSignal.timeout(120_000),
      });
      const text = await response.text();
      const answer = {
        status: response.status,
        text,
        headers: response.headers,
        begins,
        ends: performance.now(),
      };
      // Rejected because the server is stopping: nothing was done, unless a node says that it does not know.
      if (response.status === 503) await this.#target.again();
      if (response.status === 503 && mayBeApplied.test(text)) throw new Unknown(begins, performance.now());
      return answer;
    } catch (error) {
      if (error instanceof Unknown) throw error;
      if ((error as Error).name === "TimeoutError") throw new Impossible(`${method} ${path} got no answer`);
      await this.#target.again();
      throw new Unknown(begins, performance.now());
    }
  }

  #pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.#random() * items.length)];
  }

  /** @throws unless the status is one of the given ones */
  #expect(answer: Answer, what: string, ...statuses: number[]): boolean {
    if (answer.status === 503) {
      this.#recording.count("refused while stopping");
      return false;
    }
    if (!statuses.includes(answer.status))
      throw new Impossible(`${what} is answered ${answer.status}: ${answer.text}`);
    return answer.status < 300;
  }

  // --- Writes

  readonly #writes = [
    this.#upsertGroup,
    this.#upsertGroup,
    this.#upsertOne,
    this.#deleteOne,
    this.#transact,
    this.#transact,
  ];

  async #write(
    what: string,
    write: Pick<Write, "sets" | "needs">,
    act: () => Promise<Answer>,
    ...statuses: number[]
  ): Promise<Answer | undefined> {
    const record = (begins: number, ends: number, isKnown: boolean) =>
      this.#recording.operations.push({
        kind: "write",
        client: this.#number,
        what,
        begins,
        ends,
        isKnown,
        ...write,
      });
    try {
      const answer = await act();
      if (this.#expect(answer, what, ...statuses)) {
        record(answer.begins, answer.ends, true);
        this.#recording.count(what);
      }
      return answer;
    } catch (error) {
      if (error instanceof Unknown) record(error.begins, error.ends, false);
      throw error;
    }
  }

  async #upsertGroup(): Promise<void> {
    const stamp = this.#recording.nextStamp();
    const keys = keysOf(Math.floor(this.#random() * groups));
    const vectors = keys.map((key) => recordOf(key, stamp));
    const sets = keys.map((key) => [key, stamp] as const);
    await this.#write(
      "streaming upsert of a group",
      { sets, needs: [] },
      () => this.#ask("POST", "/streaming/upsert", { vectors }),
      200,
    );
  }

  async #upsertOne(): Promise<void> {
    const stamp = this.#recording.nextStamp();
    const key = Math.floor(this.#random() * keyCount);
    const vectors = [recordOf(key, stamp)];
    await this.#write(
      "streaming upsert of a record",
      { sets: [[key, stamp]], needs: [] },
      () => this.#ask("POST", "/streaming/upsert", { vectors }),
      200,
    );
  }

  async #deleteOne(): Promise<void> {
    const key = Math.floor(this.#random() * keyCount);
    const what = "streaming delete";
    const write = { sets: [[key, absent] as const], needs: [key] };
    const answer = await this.#write(
      what,
      write,
      () => this.#ask("DELETE", `/streaming/delete/${idOf(key)}`),
      204,
      404,
    );
    // "Not there" is a read, too.
    if (answer?.status === 404) this.#saw("a delete that finds nothing", answer, [[key, absent]]);
  }

  /** Status of a transaction that was aborted because it was idle during a fault. */
  get #expired(): number[] {
    return this.#target.isCluster ? [400] : [];
  }

  async #transact(): Promise<void> {
    const begun = await this.#ask("POST", "/transactions");
    if (!this.#expect(begun, "begin", 200, 409)) {
      await sleep(this.#random() * 5);
      return;
    }
    const { transaction_id } = JSON.parse(begun.text) as { transaction_id: string };
    const path = `/transactions/${transaction_id}`;
    const stamp = this.#recording.nextStamp();
    const sets = new Map<number, number>();
    const steps = 1 + Math.floor(this.#random() * 3);
    for (let step = 0; step < steps; step++) {
      const keys = keysOf(Math.floor(this.#random() * groups));
      if (this.#random() < 0.25) {
        const key = this.#pick(keys);
        const deleted = await this.#ask("DELETE", `${path}/vectors/${idOf(key)}`);
        if (this.#expect(deleted, "delete in a transaction", 204, 400)) sets.set(key, absent);
        else if (deleted.status === 503) return;
        continue;
      }
      const staged =
        this.#random() < 0.5
          ? await this.#ask("POST", `${path}/upsert`, { vectors: keys.map((key) => recordOf(key, stamp)) })
          : await this.#addAll(path, keys, stamp);
      if (!this.#expect(staged, "upsert in a transaction", 200, ...this.#expired)) return;
      for (const key of keys) sets.set(key, stamp);
    }
    if (this.#random() < 0.15) {
      const aborted = await this.#ask("POST", `${path}/abort`);
      if (this.#expect(aborted, "abort", 204, ...this.#expired))
        this.#recording.count("aborted transactions");
      return;
    }
    const commit = await this.#write(
      "commit",
      { sets: [...sets], needs: [] },
      () => this.#ask("POST", `${path}/commit`),
      204,
      ...this.#expired,
    );
    if (commit?.status === 204) await this.#askVersion(path, stamp, commit);
  }

  async #addAll(path: string, keys: readonly number[], stamp: number): Promise<Answer> {
    let answer: Answer | undefined;
    for (const key of keys) {
      answer = await this.#ask("POST", `${path}/vectors`, recordOf(key, stamp));
      if (answer.status !== 200) break;
    }
    return answer as Answer;
  }

  async #askVersion(path: string, stamp: number, commit: Answer): Promise<void> {
    const answer = await this.#ask("GET", `${path}/status?format=flat`);
    if (!this.#expect(answer, "status", 200)) return;
    const { stats } = JSON.parse(answer.text) as { stats: { version_created: number } };
    this.#recording.versionOfStamp.set(stamp, stats.version_created);
    this.#recording.told.push({ begins: commit.begins, ends: answer.ends, version: stats.version_created });
  }

  // --- Reads

  readonly #reads = [
    this.#searchDense,
    this.#searchNear,
    this.#searchSparse,
    this.#searchText,
    this.#searchHybrid,
    this.#searchBatchDense,
    this.#searchBatchSparse,
    this.#searchBatchText,
    this.#searchBatchHybrid,
    this.#export,
    this.#getOne,
    this.#exists,
    this.#document,
    this.#currentVersion,
  ];

  #saw(what: string, { begins, ends }: { begins: number; ends: number }, saw: Read["saw"]): void {
    this.#recording.operations.push({ kind: "read", client: this.#number, what, begins, ends, saw });
    this.#recording.count(what);
  }

  /** A search that returns every key; without its index, none. */
  async #search(kind: string, body: object, leg: Leg): Promise<void> {
    const answer = await this.#ask("POST", `/search/${kind}`, {
      top_k: wholeTopK,
      return_raw_text: true,
      ...body,
    });
    const what = `search ${kind}`;
    if (!this.#expect(answer, what, 200, 400)) {
      if (answer.status === 400 && !answer.text.includes('"index_not_found"'))
        throw new Impossible(`${what}: ${answer.text}`);
      return;
    }
    const parsed = JSON.parse(answer.text) as { results: Found[] } | { results: Found[] }[];
    const lists = (Array.isArray(parsed) ? parsed : [parsed]).map(({ results }) =>
      wholeState(results, leg, what),
    );
    const [first] = lists;
    for (const other of lists) {
      if (other.join() !== first.join())
        throw new Impossible(`${what}: queries of one batch saw [${first}] and [${other}]`);
    }
    this.#saw(what, answer, [...first.entries()]);
  }

  #searchDense(): Promise<void> {
    return this.#search("dense", { query_vector: [1, 0], exact: true }, "score");
  }

  #searchSparse(): Promise<void> {
    return this.#search("sparse", { query_terms: [[0, 1]] }, "score");
  }

  #searchText(): Promise<void> {
    return this.#search("tf-idf", { query: "tracked" }, "text");
  }

  #searchHybrid(): Promise<void> {
    const legs = { query_vector: [1, 0], query_terms: [[0, 1]], query_text: "tracked" };
    return this.#search("hybrid", { ...legs, exact: true, explain: true }, "explained");
  }

  #searchBatchDense(): Promise<void> {
    const queries = Array.from({ length: 4 }, () => ({ vector: [1, 0] }));
    return this.#search("batch-dense", { queries, exact: true }, "score");
  }

  #searchBatchSparse(): Promise<void> {
    return this.#search(
      "batch-sparse",
      { query_terms_list: Array.from({ length: 4 }, () => [[0, 1]]) },
      "score",
    );
  }

  #searchBatchText(): Promise<void> {
    return this.#search("batch-tf-idf", { queries: ["tracked", "tracked", "tracked"] }, "text");
  }

  #searchBatchHybrid(): Promise<void> {
    const legs = { query_vector: [1, 0], query_terms: [[0, 1]], query_text: "tracked" };
    return this.#search(
      "batch-hybrid",
      { queries: [legs, legs, legs], exact: true, explain: true },
      "explained",
    );
  }

  /** By the graph, which may miss a record: found records existed, and nothing is known about the rest. */
  async #searchNear(): Promise<void> {
    const what = "search dense by the graph";
    const answer = await this.#ask("POST", "/search/dense", {
      query_vector: [1, 0],
      top_k: wholeTopK,
      return_raw_text: true,
    });
    if (!this.#expect(answer, what, 200, 400)) return;
    const { results } = JSON.parse(answer.text) as { results: Found[] };
    const seen = wholeState(results, "score", what);
    this.#saw(
      what,
      answer,
      [...seen.entries()].filter(([, stamp]) => stamp !== absent),
    );
  }

  async #export(): Promise<void> {
    const answer = await this.#ask("GET", "/export");
    if (!this.#expect(answer, "export", 200)) return;
    const records = answer.text
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Stored);
    const state = new Array<number>(keyCount).fill(absent);
    for (const record of records) if (record.id.startsWith("k")) state[keyOf(record.id)] = stampOf(record);
    this.#saw("export", answer, [...state.entries()]);
    const version = Number(answer.headers.get("x-quiver-version"));
    this.#recording.told.push({ begins: answer.begins, ends: answer.ends, version, state: state.join() });
  }

  async #getOne(): Promise<void> {
    const key = Math.floor(this.#random() * keyCount);
    const answer = await this.#ask("GET", `/vectors/${idOf(key)}`);
    const isThere = this.#expect(answer, "get", 200, 404);
    if (answer.status !== 503)
      this.#saw("get", answer, [[key, isThere ? stampOf(JSON.parse(answer.text)) : absent]]);
  }

  async #exists(): Promise<void> {
    const key = Math.floor(this.#random() * keyCount);
    const answer = await this.#ask("HEAD", `/vectors/${idOf(key)}`);
    const isThere = this.#expect(answer, "exists", 200, 404);
    if (answer.status !== 503) this.#saw("exists", answer, [[key, isThere ? present : absent]]);
  }

  async #document(): Promise<void> {
    const group = Math.floor(this.#random() * groups);
    const answer = await this.#ask("GET", `/vectors?document_id=g${group}`);
    if (!this.#expect(answer, "vectors by document", 200)) return;
    const stamps = new Map(
      (JSON.parse(answer.text) as Stored[]).map((record) => [keyOf(record.id), stampOf(record)]),
    );
    this.#saw(
      "vectors by document",
      answer,
      keysOf(group).map((key) => [key, stamps.get(key) ?? absent]),
    );
  }

  async #currentVersion(): Promise<void> {
    const answer = await this.#ask("GET", "/versions/current");
    if (!this.#expect(answer, "current version", 200)) return;
    const { version_number: version } = JSON.parse(answer.text) as { version_number: number };
    this.#recording.told.push({ begins: answer.begins, ends: answer.ends, version });
    this.#recording.count("current version");
  }

  // --- Disturbances: they are not in the history and must not affect it.

  readonly #disturbances = [this.#ballast, this.#ballast, this.#ballast, this.#residence, this.#reindex];

  async #ballast(): Promise<void> {
    const vectors = Array.from({ length: 100 }, () => {
      const number = Math.floor(this.#random() * ballastCount);
      return {
        id: `b${number}`,
        dense_values: [-1, this.#random()],
        sparse_values: [[7, this.#random()]],
        text: `ballast number ${number}`,
      };
    });
    this.#expect(await this.#ask("POST", "/streaming/upsert", { vectors }), "ballast", 200);
    this.#recording.count("batches of ballast");
    await sleep(this.#random() * 30);
  }

  async #residence(): Promise<void> {
    this.#expect(await this.#ask("POST", "/unload"), "unload", 200);
    await sleep(this.#random() * 20);
    this.#expect(await this.#ask("POST", "/load"), "load", 200);
    this.#recording.count("unloads and loads");
  }

  async #reindex(): Promise<void> {
    const [kind, path] = this.#pick([
      ["dense", "dense"],
      ["sparse", "sparse"],
      ["tf_idf", "tf-idf"],
    ] as const);
    // An index may be missing if a kill prevented its recreation.
    const deleted = await this.#ask("DELETE", `/indexes/${kind}`);
    this.#expect(deleted, "delete index", 204, 404);
    // A server that is being stopped refuses it: the next one still has the index.
    if (deleted.status === 503) return;
    const created = await this.#ask("POST", `/indexes/${path}`, indexBodies[path]);
    // A cluster may have created it by a request of before whose outcome was unknown.
    this.#expect(created, "create index", 201, ...(this.#target.isCluster ? [409] : []));
    this.#recording.count("indexes deleted and built anew");
  }
}

export const indexBodies = {
  dense: {
    name: "d",
    distance_metric_type: "dot_product",
    quantization: { type: "auto", properties: { sample_threshold: 100 } },
    index: { type: "hnsw", properties: {} },
  },
  sparse: { name: "s", quantization: 64, sample_threshold: 100 },
  "tf-idf": { name: "t", sample_threshold: 100, k1: 1.2, b: 0.75, language: "none" },
} as const;

const keysOf = (group: number) => Array.from({ length: keysPerGroup }, (_, i) => group * keysPerGroup + i);
const idOf = (key: number) => `k${key}`;
const keyOf = (id: string) => Number(id.slice(1));

const recordOf = (key: number, stamp: number) => ({
  id: idOf(key),
  document_id: `g${Math.floor(key / keysPerGroup)}`,
  dense_values: [stamp, 1],
  sparse_values: [[0, stamp]],
  text: `tracked s${stamp}`,
  metadata: { stamp },
});

type Stored = {
  readonly id: string;
  readonly dense_values: readonly number[];
  readonly sparse_values: readonly (readonly [number, number])[];
  readonly text: string;
  readonly metadata: { readonly stamp: number };
};

/** The stamp of a record that was read; all its parts must have the same. */
function stampOf({ id, dense_values, sparse_values, text, metadata }: Stored): number {
  const { stamp } = metadata;
  if (dense_values[0] !== stamp || sparse_values[0][1] !== stamp || text !== `tracked s${stamp}`)
    throw new Impossible(
      `${id} has parts of different writes: ${JSON.stringify({ dense_values, sparse_values, text, metadata })}`,
    );
  return stamp;
}

type Found = {
  readonly id: string;
  readonly score: number;
  readonly text: string;
  readonly explanation?: Record<"dense" | "sparse" | "tf-idf", { readonly score: number } | null>;
};

/** Where a result has its stamp, besides its text. */
type Leg = "score" | "text" | "explained";

function wholeState(results: readonly Found[], leg: Leg, what: string): number[] {
  const state = new Array<number>(keyCount).fill(absent);
  for (const { id, score, text, explanation } of results) {
    if (!id.startsWith("k")) continue;
    const stamp = Number(/^tracked s(\d+)$/.exec(text)?.[1]);
    const scores =
      leg === "score"
        ? [score]
        : leg === "explained"
          ? [explanation?.dense?.score, explanation?.sparse?.score]
          : [];
    const isWhole = leg !== "explained" || explanation?.["tf-idf"] !== null;
    if (!isWhole || scores.some((each) => each !== stamp))
      throw new Impossible(
        `${what}: the legs of ${id} are of different versions: ${JSON.stringify({ score, text, explanation })}`,
      );
    state[keyOf(id)] = stamp;
  }
  return state;
}
