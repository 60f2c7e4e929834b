// Does a real server agree with the model, command by command?

import { deepStrictEqual as same } from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import type { TransactionStats } from "@quiverdb/protocol/shapes/transaction";
import {
  clauseText,
  fused,
  type Given,
  ModelCollection,
  type ModelRecord,
  type Ranked,
  tolerance,
} from "../../model.ts";
import { adminKey } from "../server-process.ts";
import {
  allIds,
  type Command,
  type CommandOf,
  clients,
  collectionNames,
  documents,
  idsOf,
  type StreamingStep,
} from "./commands.ts";
import { changeDeclared, changeMatching, compareFiltered } from "./matching.ts";
import { Snapshots } from "./snapshots.ts";

/** The server, which commands may stop and restart. */
export type Servers = {
  url(): string;
  /** Of each request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether collections may have `max_vectors`; default: yes. */
  readonly isLimited?: boolean;
  restart(how: "stop" | "kill"): Promise<void>;
  /** Restarts it with a short idle timeout of transactions, runs `act`, and restarts it as before. */
  withoutPatience(act: () => Promise<void>): Promise<void>;
};

type Answer = {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers of all operations are looked into.
  readonly json: any;
  readonly text: string;
  readonly headers: Headers;
};

type Modelled = {
  readonly model: ModelCollection;
  /** All transactions, oldest first. */
  readonly transactions: {
    id: string;
    state: "open" | "committed" | "aborted";
    version?: number;
    given: Given;
  }[];
  isLoaded: boolean;
};

/** A broken promise. */
class Disagreement extends Error {
  override readonly name = "Disagreement";
}

const asPairs = ({ sparse_indices, sparse_values }: ModelRecord) =>
  sparse_indices
    ?.map((index, i) => [index, sparse_values?.[i]] as [number, number])
    .sort(([a], [b]) => a - b) ?? null;

/** The record as returned by reads. */
function asRead(record: ModelRecord): object {
  const pairs = asPairs(record);
  return {
    id: record.id,
    document_id: record.document_id ?? null,
    dense_values: record.dense_values ?? null,
    sparse_values: pairs,
    sparse_indices: pairs?.map(([index]) => index) ?? null,
    text: record.text ?? null,
    metadata: record.metadata ?? null,
  };
}

const kindsOf = ({ model }: Modelled) => ({
  dense: model.metric !== null,
  sparse: model.hasSparse,
  "tf-idf": model.text !== null,
});

export class Pair {
  readonly #servers: Servers;
  readonly #called: Set<OperationName>;
  readonly #suffix: string;
  readonly #modelled = new Map<string, Modelled>();
  readonly #positions = new Map<string, boolean>();
  readonly #snapshots: Snapshots;
  #key = adminKey;

  /**
   * @param called called with each requested route
   * @param suffix keeps the collections of this sequence apart from others
   */
  constructor(servers: Servers, called: Set<OperationName>, suffix: string) {
    this.#servers = servers;
    this.#called = called;
    this.#suffix = suffix;
    this.#snapshots = new Snapshots({
      expect: (...given) => this.#expect(...given),
      send: (...given) => this.#send(...given),
      fullName: (name) => this.#name(name),
    });
  }

  #name(name: string): string {
    return `${name} ${this.#suffix}`;
  }

  async #send(
    route: OperationName,
    params: Record<string, string>,
    body?: string | Uint8Array<ArrayBuffer>,
    query = "",
  ): Promise<Response> {
    this.#called.add(route);
    const { method, path, upload }: Operation = operations[route];
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, parameter: string) =>
      encodeURIComponent(params[parameter]),
    );
    const type = upload ? "application/octet-stream" : "application/json";
    return await fetch(`${this.#servers.url()}${filled}${query}`, {
      method,
      headers: { authorization: `Bearer ${this.#key}`, "content-type": type, ...this.#servers.headers },
      body,
      signal: AbortSignal.timeout(120_000),
    });
  }

  async #call(
    route: OperationName,
    params: Record<string, string> = {},
    body?: unknown,
    query = "",
  ): Promise<Answer> {
    const response = await this.#send(
      route,
      params,
      body === undefined ? undefined : JSON.stringify(body),
      query,
    );
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.startsWith("application/json") && text !== "";
    return {
      status: response.status,
      text,
      json: isJson ? JSON.parse(text) : undefined,
      headers: response.headers,
    };
  }

  /** Calls, and asserts "ok" or the code of the error. */
  async #expect(expected: string | readonly string[], ...call: Parameters<Pair["asked"]>): Promise<Answer> {
    const answer = await this.asked(...call);
    const code = answer.status < 300 ? "ok" : (answer.json?.error.code ?? String(answer.status));
    const allowed = typeof expected === "string" ? [expected] : expected;
    if (!allowed.includes(code))
      throw new Disagreement(
        `${call[0]} is answered ${answer.status} ${answer.text.slice(0, 500)}; the model says ${allowed.join(" or ")}`,
      );
    return answer;
  }

  /** A request to a collection of the sequence. */
  asked(
    route: OperationName,
    name: string,
    params: Record<string, string> = {},
    body?: unknown,
    query = "",
  ): Promise<Answer> {
    return this.#call(route, { collection_id: this.#name(name), ...params }, body, query);
  }

  async run(command: Command): Promise<void> {
    switch (command.do) {
      case "restart":
        return this.#servers.restart("stop");
      case "idle":
        return this.#idle();
      case "session":
        return this.#session();
      case "create":
        return this.#create(command);
      case "kill":
        return this.#kill(command);
      case "restore":
        return this.#restore(command);
      case "carrySnapshot":
        return this.#snapshots.carry(command.pick);
      case "dropSnapshot":
        return this.#snapshots.drop(command.pick);
      default:
        break;
    }
    const pair = this.#modelled.get(command.name);
    if (!pair) {
      await this.#expect("collection_not_found", "getCollection", command.name);
      await this.#expect("collection_not_found", "searchText", command.name, {}, { query: "kappa" });
      return;
    }
    await this.#act(command, pair);
    await this.#compare(command.name);
  }

  async #create({ name, max: drawn, autoIndex }: CommandOf<"create">): Promise<void> {
    const max = this.#servers.isLimited === false ? null : drawn;
    const there = this.#modelled.has(name);
    const body = {
      name: this.#name(name),
      description: "of the model",
      dense_vector: { enabled: true, dimension: 3, auto_create_index: autoIndex },
      sparse_vector: { enabled: true, auto_create_index: autoIndex },
      tf_idf_options: { enabled: true },
      config: { max_vectors: max },
      store_raw_text: true,
    };
    await this.#expect(there ? "collection_already_exists" : "ok", "createCollection", name, {}, body);
    if (there) return;
    const model = new ModelCollection(max);
    if (autoIndex) {
      model.metric = "cosine";
      model.hasSparse = true;
    }
    this.#modelled.set(name, { model, transactions: [], isLoaded: true });
    await this.#compare(name);
  }

  /** The earlier collection of this name is gone, with its transactions; the contents of the snapshot replace it. */
  async #restore({ name, pick, overwrite }: CommandOf<"restore">): Promise<void> {
    const restored = await this.#snapshots.restore(name, pick, overwrite, this.#modelled.has(name));
    if (restored) {
      this.#modelled.set(name, { model: restored.model, transactions: [], isLoaded: true });
      this.#positions.set(name, restored.positions);
    }
    await this.#compare(name);
  }

  /** The server is killed during a write: afterwards the write is applied as a whole or not at all. */
  async #kill({ name, records }: CommandOf<"kill">): Promise<void> {
    const pair = this.#modelled.get(name);
    // A broken connection leaves the outcome of the write unknown.
    const write = pair
      ? this.asked("streamingUpsert", name, {}, { vectors: records }).catch(() => undefined)
      : undefined;
    await this.#servers.restart("kill");
    const answer = await write;
    if (pair) {
      const { json } = await this.#expect("ok", "currentVersion", name);
      const made = json.version_number - pair.model.version;
      same(made === 0 || made === 1, true, `a killed write made ${made} versions`);
      if (answer?.status === 200 && records.length > 0) same(made, 1, "an acknowledged write is lost");
      if (made === 1) same(pair.model.upsert(records), true, "a write beyond max_vectors is there");
    }
    for (const each of this.#modelled.keys()) await this.#compare(each);
  }

  async #idle(): Promise<void> {
    const open = [...this.#modelled].filter(([, { model }]) => model.staged !== null);
    if (open.length === 0) return;
    await this.#servers.withoutPatience(async () => {
      for (const [name, pair] of open) {
        const last = pair.transactions.at(-1) as Modelled["transactions"][number];
        const deadline = performance.now() + 60_000;
        for (;;) {
          const { json } = await this.#expect("ok", "getTransactionStatus", name, {
            transaction_id: last.id,
          });
          if ("Aborted" in json.status) break;
          if (performance.now() > deadline) throw new Disagreement("an idle transaction is not aborted");
          await sleep(20);
        }
        last.state = "aborted";
        pair.model.staged = null;
      }
    });
    for (const [name] of open) await this.#compare(name);
  }

  async #session(): Promise<void> {
    const { status, json } = await this.#call("createSession", {}, { username: "admin", password: adminKey });
    same(status, 200);
    // From here on the sequence continues with the session.
    this.#key = json.access_token;
  }

  async #act(
    command: Exclude<
      Command,
      {
        do: "restart" | "idle" | "session" | "create" | "kill" | "restore" | "carrySnapshot" | "dropSnapshot";
      }
    >,
    pair: Modelled,
  ): Promise<void> {
    const { name } = command;
    const { model } = pair;
    switch (command.do) {
      case "drop":
        await this.#expect("ok", "deleteCollection", name);
        this.#modelled.delete(name);
        return;
      case "upsert": {
        const expected = model.upsert(command.records) ? "ok" : "max_vectors_exceeded";
        await this.#expect(expected, "streamingUpsert", name, {}, { vectors: command.records });
        return;
      }
      case "delete": {
        const expected = model.delete(command.id) ? "ok" : "vector_not_found";
        await this.#expect(expected, command.by, name, { vector_id: command.id });
        return;
      }
      case "together":
        return this.#together(command, model);
      case "begin": {
        const isOpen = model.staged !== null;
        const { json } = await this.#expect(isOpen ? "transaction_ongoing" : "ok", "createTransaction", name);
        if (isOpen) return;
        model.begin();
        pair.transactions.push({ id: json.transaction_id, state: "open", given: model.given });
        return;
      }
      case "add":
      case "stage":
      case "stageDelete":
      case "commit":
      case "abort":
        return this.#transact(command, pair);
      case "index":
        return this.#index(command, model);
      case "unindex": {
        const had = kindsOf(pair)[command.kind];
        await this.#expect(had ? "ok" : "index_not_found", "deleteIndex", name, { index_type: command.kind });
        if (command.kind === "dense") model.metric = null;
        else if (command.kind === "sparse") model.hasSparse = false;
        else model.text = null;
        return;
      }
      case "unload": {
        const { json } = await this.#expect("ok", "unloadCollection", name);
        same(json, `Collection '${this.#name(name)}' successfully unloaded`);
        pair.isLoaded = false;
        return;
      }
      case "load": {
        const { json } = await this.#expect("ok", "loadCollection", name);
        same(json.loaded, true);
        pair.isLoaded = true;
        return;
      }
      case "analyze": {
        const expected = model.text ? "ok" : "index_not_found";
        const { json } = await this.#expect(
          expected,
          "analyzeText",
          name,
          {},
          { text: command.text.join(" ") },
        );
        if (model.text)
          same(
            json.terms,
            command.text.map((word, position) => ({ position, word, term: word, dropped: null })),
          );
        return;
      }
      case "recall": {
        const expected = model.metric ? "ok" : "index_not_found";
        const { json } = await this.#expect(
          expected,
          "measureRecall",
          name,
          {},
          undefined,
          "?sample=5&top_k=3",
        );
        if (!model.metric) return;
        pair.isLoaded = true;
        const dense = [...model.records.values()].filter(({ dense_values }) => dense_values).length;
        same([json.version, json.top_k], [model.version, 3]);
        same(
          json.recall >= json.worst_recall && json.recall <= 1 && json.queries <= Math.min(5, dense),
          true,
          JSON.stringify(json),
        );
        return;
      }
      case "snapshot": {
        const positions = this.#positions.get(name) ?? false;
        return this.#snapshots.take(name, command.incremental, { model, positions });
      }
      case "search":
        return this.#search(command, pair);
      case "filter":
        pair.isLoaded = (await this.#expect("ok", "getCollection", name)).json.loaded;
        if (model.metric || model.hasSparse || model.text) pair.isLoaded = true;
        return compareFiltered(command, model, (...call) => this.#expect(...call));
      case "deleteMatching":
      case "updateMatching":
      case "patch":
        return changeMatching(command, model, (...call) => this.#expect(...call));
      case "declare":
      case "undeclare":
        return changeDeclared(command, model, (...call) => this.#expect(...call));
    }
  }

  /** Concurrent clients that write their own ids; the model applies each step when it is acknowledged. */
  async #together({ name, steps }: CommandOf<"together">, model: ModelCollection): Promise<void> {
    // With a limit the order of the steps would matter, which no response shows.
    const room =
      model.maxVectors === null ||
      new Set([...model.records.keys(), ...allIds.slice(0, clients * idsOf(0).length)]).size <=
        model.maxVectors;
    if (!room) return;
    const version = model.version;
    const run = async (client: readonly StreamingStep[]) => {
      for (const step of client) {
        if (step.do === "upsert") {
          await this.#expect("ok", "streamingUpsert", name, {}, { vectors: step.records });
          model.upsert(step.records);
        } else {
          const isThere = model.records.has(step.id);
          await this.#expect(isThere ? "ok" : "vector_not_found", "streamingDelete", name, {
            vector_id: step.id,
          });
          model.delete(step.id);
        }
      }
    };
    await Promise.all(steps.map(run));
    const { json } = await this.#expect("ok", "currentVersion", name);
    const longest = Math.max(...steps.map((client) => client.filter((step) => step.do === "upsert").length));
    const made = json.version_number - version;
    same(
      made >= longest && made <= model.version - version,
      true,
      `${made} versions, the model ${model.version - version}`,
    );
    // Requests that share a group commit share its version.
    model.version = json.version_number;
  }

  async #transact(
    command:
      | CommandOf<"add">
      | CommandOf<"stage">
      | CommandOf<"stageDelete">
      | CommandOf<"commit">
      | CommandOf<"abort">,
    pair: Modelled,
  ): Promise<void> {
    const { model, transactions } = pair;
    const { name } = command;
    const last = transactions.at(-1);
    const params = { transaction_id: last?.id ?? "1-000000000000000000000000" };
    const refused = last === undefined ? "transaction_not_found" : "transaction_not_open";
    const staged = model.staged;
    if (command.do === "add" || command.do === "stage") {
      const records = command.do === "add" ? [command.record] : command.records;
      const route = command.do === "add" ? "addVector" : "upsertVectors";
      const body = command.do === "add" ? command.record : { vectors: records };
      const limited = model.maxVectors === null ? ["ok"] : ["ok", "max_vectors_exceeded"];
      const answer = await this.#expect(staged ? limited : refused, route, name, params, body);
      if (answer.status === 200) model.stageUpserts(records);
    } else if (command.do === "stageDelete") {
      const expected = !staged ? refused : model.canStageDelete(command.id) ? "ok" : "vector_not_found";
      await this.#expect(expected, "deleteVectorInTransaction", name, { ...params, vector_id: command.id });
      if (expected === "ok") model.stageDelete(command.id);
    } else if (command.do === "abort") {
      await this.#expect(staged ? "ok" : refused, "abortTransaction", name, params);
      if (!staged || !last) return;
      last.state = "aborted";
      model.staged = null;
    } else if (!staged || !last) {
      await this.#expect(refused, "commitTransaction", name, params);
    } else if (model.commit() === "too many") {
      await this.#expect("max_vectors_exceeded", "commitTransaction", name, params);
    } else {
      await this.#expect("ok", "commitTransaction", name, params);
      last.state = "committed";
      last.version = model.version;
      await this.#completed(name, last.id);
    }
  }

  async #completed(name: string, transaction_id: string): Promise<void> {
    const deadline = performance.now() + 60_000;
    for (;;) {
      const { json } = await this.#expect(
        "ok",
        "getTransactionStatus",
        name,
        { transaction_id },
        undefined,
        "?format=flat",
      );
      if (json.status === "complete") return;
      same(json.status, "indexing_in_progress");
      if (performance.now() > deadline) throw new Disagreement("a commit is not indexed within a minute");
      await sleep(3);
    }
  }

  async #index(command: CommandOf<"index">, model: ModelCollection): Promise<void> {
    const { name, kind, metric, codes, levels, k1, b, positions, recallTarget } = command;
    if (kind === "dense") {
      const quantization =
        codes === "auto"
          ? { type: "auto", properties: { sample_threshold: 4 } }
          : { type: "scalar", properties: { data_type: codes, range: { min: -3, max: 3 } } };
      const properties = { max_cache_size: 5, neighbors_count: 4, recall_target: recallTarget };
      const body = {
        name: "d",
        distance_metric_type: metric,
        quantization,
        index: { type: "hnsw", properties },
      };
      await this.#expect(model.metric ? "index_already_exists" : "ok", "createDenseIndex", name, {}, body);
      model.metric ??= metric;
    } else if (kind === "sparse") {
      const body = { name: "s", quantization: levels, sample_threshold: 10 };
      await this.#expect(
        model.hasSparse ? "index_already_exists" : "ok",
        "createSparseIndex",
        name,
        {},
        body,
      );
      model.hasSparse = true;
    } else {
      const body = { name: "t", sample_threshold: 10, k1, b, positions, language: "none" };
      await this.#expect(model.text ? "index_already_exists" : "ok", "createTextIndex", name, {}, body);
      if (!model.text) this.#positions.set(name, positions);
      model.text ??= { k1, b };
    }
  }

  async #search(command: CommandOf<"search">, pair: Modelled): Promise<void> {
    const { name, topK: top_k, vector, terms, text, clauses, weight, k } = command;
    const { model } = pair;
    const legs: { kind: "dense" | "sparse" | "text"; body: object; ranking: Ranked }[] = [];
    const results = async (route: OperationName, body: object): Promise<Ranked> =>
      (await this.#expect("ok", route, name, {}, body)).json.results;
    const batch = async (route: OperationName, body: object): Promise<Ranked[]> =>
      (await this.#expect("ok", route, name, {}, body)).json.map((each: { results: Ranked }) => each.results);
    /** The full ranking contains every record, and each shorter ranking is a prefix of it. */
    const leg = async (
      kind: (typeof legs)[number]["kind"],
      route: OperationName,
      expected: Ranked,
      body: object,
      inHybrid: object,
    ) => {
      const ranking = await results(route, { ...body, top_k: 100 });
      ranked(ranking, expected, 100);
      same(await results(route, { ...body, top_k }), ranking.slice(0, top_k));
      const explained = (await this.#expect("ok", route, name, {}, { ...body, top_k, explain: true })).json
        .results;
      addsUp(explained);
      legs.push({ kind, body: inHybrid, ranking: ranking.map(({ id, score }) => ({ id, score })) });
    };
    if (model.metric) {
      const expected = model.dense(vector);
      await leg(
        "dense",
        "searchDense",
        expected,
        { query_vector: vector, exact: true },
        { query_vector: vector, exact: true },
      );
      for (const effort of [{}, { ef_search: 50 }, { recall_target: 0.9 }])
        among(
          await results("searchDense", { query_vector: vector, top_k, ...effort }),
          expected,
          Math.min(top_k, expected.length),
        );
      const [first, second] = await batch("searchBatchDense", {
        queries: [{ vector }, { vector: [1, 0, 2] }],
        top_k,
        exact: true,
      });
      ranked(first, expected, top_k);
      ranked(second, model.dense([1, 0, 2]), top_k);
    } else await this.#expect("index_not_found", "searchDense", name, {}, { query_vector: vector });
    if (model.hasSparse) {
      const expected = model.sparse(terms);
      await leg(
        "sparse",
        "searchSparse",
        expected,
        { query_terms: terms, early_terminate_threshold: 0 },
        { query_terms: terms },
      );
      const [first, second] = await batch("searchBatchSparse", {
        query_terms_list: [terms, [[0, 1]]],
        top_k,
      });
      ranked(first, expected, top_k);
      ranked(second, model.sparse([[0, 1]]), top_k);
    } else await this.#expect("index_not_found", "searchSparse", name, {}, { query_terms: terms });
    if (model.text) {
      const query = text.join(" ");
      await leg("text", "searchText", model.bm25(text), { query }, { query_text: query });
      const operators = clauses.map(clauseText).join(" ");
      // A phrase of several words needs positions.
      if (clauses.some(({ kind }) => kind === "phrase") && !this.#positions.get(name)) {
        await this.#expect(
          "invalid_request",
          "searchText",
          name,
          {},
          { query: operators, syntax: "operators" },
        );
      } else {
        const body = { syntax: "operators", top_k: 100 };
        const expected = model.textQuery(clauses);
        ranked(await results("searchText", { query: operators, ...body }), expected, 100);
        const [first, second] = await batch("searchBatchText", { queries: [operators, "+kappa"], ...body });
        ranked(first, expected, 100);
        ranked(second, model.bm25(["kappa"]), 100);
      }
    } else await this.#expect("index_not_found", "searchText", name, {}, { query: "kappa" });
    if (legs.length > 0) pair.isLoaded = true;
    await this.#hybrid(name, legs, top_k, weight, k);
  }

  /** Fusion is checked on the rankings of the legs, so that equal scores may be in either order in a leg. */
  async #hybrid(
    name: string,
    legs: readonly { kind: "dense" | "sparse" | "text"; body: object; ranking: Ranked }[],
    top_k: number,
    weight: number,
    k: number,
  ): Promise<void> {
    if (legs.length < 2) {
      await this.#expect("invalid_request", "searchHybrid", name, {}, { query_text: "kappa", top_k });
      return;
    }
    const depth = Math.max(3 * top_k, 50);
    for (const used of [legs, legs.slice(0, 2), legs.slice(1)].filter(({ length }) => length > 1)) {
      const body = Object.assign({}, ...used.map((leg) => leg.body));
      const rankings = used.map(({ ranking }) => ranking);
      const options = { top_k, fusion_constant_k: k };
      const expected = fused(rankings, depth, k);
      ranked(
        (await this.#expect("ok", "searchHybrid", name, {}, { ...body, ...options })).json.results,
        expected,
        top_k,
      );
      const { exact, ...query } = body;
      const batched = (
        await this.#expect(
          "ok",
          "searchBatchHybrid",
          name,
          {},
          { queries: [query, query], exact, ...options },
        )
      ).json;
      for (const { results } of batched) ranked(results, expected, top_k);
      const weighed = { ...body, ...options, explain: true, fusion_weights: { [used[0].kind]: weight } };
      const explained = (await this.#expect("ok", "searchHybrid", name, {}, weighed)).json.results;
      ranked(explained, fused(rankings, depth, k, [weight]), top_k);
      addsUp(explained);
    }
  }

  /** Compares everything that can be read. */
  async #compare(name: string): Promise<void> {
    const pair = this.#modelled.get(name);
    if (!pair) return;
    const { model, transactions } = pair;
    const { json: detail } = await this.#expect("ok", "getCollection", name);
    same(
      [detail.vectors_count, detail.loaded, detail.config.max_vectors],
      [model.records.size, pair.isLoaded, model.maxVectors],
    );
    const exported = await this.#expect("ok", "exportVectors", name);
    same(exported.headers.get("x-quiver-version"), String(model.version));
    const records = exported.text
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line));
    const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);
    same(records.sort(byId), [...model.records.values()].map(asRead).sort(byId as never));
    const { json: list } = await this.#expect("ok", "listVersions", name);
    same([list.current_version, list.versions[0].vector_count], [model.version, model.records.size]);
    same(
      list.versions.map(({ version_number }: { version_number: number }) => version_number),
      list.versions.map((_: unknown, i: number) => model.version - i),
    );
    await this.#snapshots.compare(name);
    const { json: indexes } = await this.#expect("ok", "getIndexes", name);
    same(
      Object.keys(indexes).sort(),
      Object.entries(kindsOf(pair))
        .filter(([, there]) => there)
        .map(([kind]) => kind)
        .sort(),
    );
    const { json: listed } = await this.#expect("ok", "listTransactions", name);
    const states = { open: ["NotStarted"], committed: ["InProgress", "Complete"], aborted: ["Aborted"] };
    const found = listed.transactions as {
      transaction_id: string;
      status: Record<string, { stats: TransactionStats }>;
    }[];
    same(
      found.map(({ transaction_id }) => transaction_id),
      transactions.map(({ id }) => id).reverse(),
    );
    for (const [i, { status }] of found.entries()) {
      const { state, version, given } = transactions[transactions.length - 1 - i];
      const [[key, { stats }]] = Object.entries(status);
      same(
        [states[state].includes(key), stats.version_created],
        [true, version ?? null],
        `${key} of ${state}`,
      );
      same(
        [stats.records_upserted, stats.records_deleted, stats.total_operations],
        [given.upserted, given.deleted, given.upserted + given.deleted],
        `operations that a transaction was given, ${key}`,
      );
    }
  }

  /** Only one check runs at a time, and concurrent sequences may be first. */
  async #checked(name: string): Promise<Answer["json"]> {
    for (;;) {
      const { status, json } = await this.#expect(["ok", "overloaded"], "checkCollection", name);
      if (status === 200) return json;
      await sleep(20);
    }
  }

  /** Reads everything one by one at the end of a sequence, and then deletes the collections. */
  async end(): Promise<void> {
    const { json: collections } = await this.#call("listCollections");
    const { json: loaded } = await this.#call("loadedCollections");
    const own = (list: readonly string[]) => list.filter((each) => each.endsWith(` ${this.#suffix}`)).sort();
    same(
      own(collections.collections.map((each: { name: string }) => each.name)),
      [...this.#modelled.keys()].map((name) => this.#name(name)).sort(),
    );
    same(
      own(loaded),
      [...this.#modelled]
        .filter(([, { isLoaded }]) => isLoaded)
        .map(([name]) => this.#name(name))
        .sort(),
    );
    for (const name of collectionNames) {
      const pair = this.#modelled.get(name);
      if (!pair) continue;
      await this.#compare(name);
      for (const vector_id of allIds) {
        const record = pair.model.records.get(vector_id);
        same((await this.asked("vectorExists", name, { vector_id })).status, record ? 200 : 404);
        const { json } = await this.#expect(record ? "ok" : "vector_not_found", "getVector", name, {
          vector_id,
        });
        if (record) same(json, asRead(record));
      }
      for (const document of documents) {
        const query = `?document_id=${encodeURIComponent(document)}`;
        const { json } = await this.#expect("ok", "vectorsByDocument", name, {}, undefined, query);
        same(
          json.map((each: { id: string }) => each.id),
          pair.model.document(document),
        );
      }
      const { json: versions } = await this.#expect("ok", "listVersions", name);
      const oldest = versions.versions.at(-1);
      same((await this.#expect("ok", "getVersion", name, { version_hash: oldest.hash })).json, oldest);
      same((await this.#expect("ok", "currentVersion", name)).json, versions.versions[0]);
      const report = await this.#checked(name);
      same(report.findings, []);
      same(report.collections[0].records, pair.model.records.size);
      await this.#expect("ok", "deleteCollection", name);
    }
    await this.#snapshots.end(collectionNames);
  }
}

/**
 * The best k in order. Scores that are equal in the model may differ in their last bits, because the engine adds in another order: such
 * hits may be in either order, but hits with equal scores are ordered by id.
 */
function ranked(found: Ranked, model: Ranked, k: number): void {
  among(found, model, Math.min(k, model.length));
  for (const [i, { id, score }] of found.entries()) {
    same(
      Math.abs(score - model[i].score) <= tolerance,
      true,
      `${id} has ${score}, in its place the model has ${model[i].score}`,
    );
    if (i > 0 && score === found[i - 1].score) same(id > found[i - 1].id, true, "equal scores are not by id");
  }
}

/** The expected number of hits, each with the score of the model, in order. */
function among(found: Ranked, model: Ranked, count: number): void {
  const shown = () => `found ${JSON.stringify(found)}, the model has ${JSON.stringify(model)}`;
  same(found.length, count, shown());
  const scores = new Map(model.map(({ id, score }) => [id, score]));
  for (const [i, { id, score }] of found.entries()) {
    same(Math.abs(score - (scores.get(id) ?? Number.NaN)) <= tolerance, true, shown());
    if (i > 0) same(score <= found[i - 1].score, true, "scores ascend");
  }
}

/** The parts of an explanation add up to the score, bit for bit. */
function addsUp(
  results: readonly { score: number; explanation: Record<string, { contribution: number } | null> }[],
): void {
  for (const { score, explanation } of results) {
    let sum = 0;
    for (const standing of Object.values(explanation)) if (standing) sum += standing.contribution;
    same(sum, score, `an explanation adds up to ${sum}, the score is ${score}`);
  }
}
