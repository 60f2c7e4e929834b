// What can be done with a collection of several shards?
//
// The same as with any other. What all shards know alike goes to home (shards.ts), in the same way as every write: each shard applies it. What
// concerns records is asked of the shards that have them, and put together here. Methods that answer at once elsewhere give promises here;
// operations await what they call.

import { counted } from "@quiverdb/protocol/counted";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { checkFields } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import type { CheckReport } from "@quiverdb/protocol/shapes/check";
import { type CollectionDetail, MergeCollection, type Merged } from "@quiverdb/protocol/shapes/collection";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { Indexes, MetadataIndexes } from "@quiverdb/protocol/shapes/index-definition";
import {
  DeleteMatching,
  ExactPatch,
  ExactUpdateMatching,
  FetchVectors,
} from "@quiverdb/protocol/shapes/matching";
import type { FlatTransactionStatus, TransactionStatus } from "@quiverdb/protocol/shapes/transaction";
import type { Version } from "@quiverdb/protocol/shapes/version";
import { compareText, concatenated, emptyBytes } from "../../base/bytes.ts";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import { fingerprint } from "../../collection/accept.ts";
import { answerTo, fingerprintOf } from "../../collection/answers.ts";
import { shardIdOf } from "../../collection/definition.ts";
import type { When } from "../../collection/history.ts";
import { KeyFilter } from "../../collection/key-filter.ts";
import { type StoredBytes, StoredVector } from "../../collection/reading.ts";
import { checkId, requiredBorn } from "../../collection/schema.ts";
import { versionNumbered } from "../../collection/versions.ts";
import { told } from "../../query/filter/warnings.ts";
import { comparePlaces, type PageEnd } from "../../query/scroll.ts";
import { boundaryOf, passed } from "../collection/exact-versions.ts";
import { facetLimit, type ReadPage, type ScrollPage } from "../collection/matches.ts";
import { originOf, toldOf } from "../collection/merging.ts";
import { patchOf, type ShardChange } from "../collection/writes.ts";
import type { CollectionCalls, RestrictedCalls } from "../collection-calls.ts";
import type { Collection, PastCollection, Transaction } from "../contract.ts";
import { discreet } from "../discreet.ts";
import type { ShardOptions } from "./call.ts";
import { mergedChanges } from "./merged-changes.ts";
import { exportShards } from "./merged-export.ts";

import { agreed, searchShards } from "./sharded-search.ts";
import type { Shards } from "./shards.ts";
import { unitedFacets } from "./united-facets.ts";

/** How often, and for how long at least, a change is made anew that others' writes have overtaken. */
const attemptsMax = 10;
const attemptsMs = 10_000;
/** How long others' writes wait for the next attempt: twice as long as this one has taken so far, or the last one in all, within bounds. */
const holdMs = { least: 250, most: 10_000 };

const received = (bytes: StoredBytes): StoredVector => StoredVector.of(bytes);

/** What is read of the shards at one version. @param version an earlier one; undefined: the newest. @param key the caller's */
function readingCalls(shards: Shards, key: KeyFilter | null, versionOf: () => number | undefined) {
  const atOne = <T>(
    options: CallOptions | undefined,
    act: (at: ShardOptions & { readonly atVersion: number }, deadline: Deadline) => Promise<T>,
  ): Promise<T> => shards.atOneVersion(options, versionOf(), act);
  const page = async (
    filter: unknown,
    scroll: ScrollPage,
    at: ShardOptions,
    deadline: Deadline,
  ): Promise<ReadPage> => {
    const pages = await shards.all("page", { filter, page: scroll }, deadline, at);
    const compare = comparePlaces(scroll.order);
    const all = pages.flatMap(({ vectors, places }) =>
      vectors.map((vector, i) => ({ vector, place: places[i] })),
    );
    const listed = all.sort((a, b) => compare(a.place, b.place)).slice(0, scroll.limit);
    const isMore = all.length > listed.length || pages.some(({ end }) => end !== null);
    const places: PageEnd[] = listed.map(({ place }) => place);
    return {
      vectors: listed.map(({ vector }) => received(vector)),
      places,
      end: isMore ? (places.at(-1) ?? null) : null,
      warnings: all.length > 0 ? [] : agreed(pages.map(({ warnings }) => warnings)),
    };
  };
  return {
    count: (request, options) =>
      atOne(options, async (at, deadline) => {
        const found = await shards.all("count", request, deadline, at);
        const count = found.reduce((sum, each) => sum + each.count, 0);
        const warnings = count > 0 ? [] : agreed(found.map((each) => each.warnings ?? []));
        return { count, ...told({ warnings }) };
      }),
    facet: (request, options) => {
      const limit = facetLimit(request);
      return atOne(options, (at, deadline) => unitedFacets(shards, request, limit, at, deadline));
    },
    scroll: (request = {}, options, reader = "") =>
      shards.home.parts.matches.scrollBy(request, options, reader, key, (scroll) =>
        atOne(options, (at, deadline) => page(request.filter, scroll, at, deadline)),
      ),
    fetch: (request, options) =>
      atOne(options, async (at, deadline) => {
        checkFields(FetchVectors, request);
        // All is checked by one of them, with the positions of the request.
        await shards.home.parts.matches.fetch({ ...request, ids: [] }, deadline, key);
        const ids: readonly string[] = Array.isArray(request.ids) ? request.ids : [];
        if (ids.length > limits.fetchedMax || !Array.isArray(request.ids))
          await shards.home.parts.matches.fetch(request, deadline, key);
        for (const [i, id] of ids.entries()) checkId(id, `ids[${i}]`);
        const of = (number: number) => ids.filter((id) => shards.of(id) === number);
        const found = await shards.all("fetch", (number) => ({ ids: of(number) }), deadline, at);
        const rest = found.map((each) => each.values());
        return ids.map((id) => {
          const bytes = rest[shards.of(id)].next().value;
          return bytes ? received(bytes) : null;
        });
      }),
    eachOfDocument: async (id, take, options) => {
      checkId(id, "document_id");
      const all = await atOne(options, (at, deadline) => shards.all("document", { id }, deadline, at));
      const vectors = all.flat().map(received);
      for (const vector of vectors.sort((a, b) => compareText(a.id, b.id))) take(vector);
    },
    exportMatching: (request, options) =>
      atOne(options, (at, deadline) => exportShards(shards, { request }, at, deadline)),
  } satisfies Partial<PastCollection>;
}

/** The status of a transaction: as far as the shard is that is the furthest behind. */
function furthestBehind(all: readonly (TransactionStatus | FlatTransactionStatus)[]) {
  const percentOf = (status: (typeof all)[number]): number => {
    const { stats } = "stats" in status ? status : Object.values(status.status)[0];
    return stats.percentage_complete;
  };
  return all.reduce((least, each) => (percentOf(each) < percentOf(least) ? each : least));
}

function transactionOf(shards: Shards, id: string): Transaction {
  const own = () => shards.home.calls.transaction(id);
  const status = async (isFlat: boolean) =>
    furthestBehind(await shards.all("status", { id, isFlat }, Deadline.none, latest(shards)));
  return {
    id,
    add: (vector, options) => own().add(vector, options),
    upsert: (vectors, options) => own().upsert(vectors, options),
    delete: (vector, options, condition) => own().delete(vector, options, condition),
    commit: (options, condition) => own().commit(options, condition),
    abort: (options) => own().abort(options),
    status: () => status(false) as never,
    flatStatus: () => status(true) as never,
  };
}

/** What shards contribute to a change. */
type Part = Pick<ShardChange, "conditions" | "batch">;

/**
 * Makes the changes of all shards as one version; again, if records have changed since they were found.
 * @param from what is asked for, to tell the request from others with its key
 * @param partsOf finds what each shard contributes
 * @param toldOf what is answered, and how many records are changed
 * @param isExact whether nothing else may be written between the version that the parts are found at and the change
 */
async function changeShards<P extends Part, T extends object>(
  shards: Shards,
  from: object,
  given: CallOptions | undefined,
  partsOf: (at: ShardOptions, deadline: Deadline) => Promise<readonly P[]>,
  toldOf: (parts: readonly P[]) => { readonly told: T; readonly records: number },
  { isRepeated = true, isExact = false } = {},
): Promise<{ version: number; told: T; parts: readonly P[] }> {
  const deadline = Deadline.of(given);
  const { state, writes } = shards.home.parts;
  const text = fingerprintOf(from);
  const { idempotencyKey: key } = deadline;
  const once = key && { key, fingerprint: fingerprint({ kind: "change", batch: emptyBytes, from: text }) };
  const earlier = once
    ? state.read((readTxn) => answerTo(readTxn, once, state.dependencies.clock()))
    : undefined;
  if (earlier !== undefined) return { version: earlier.version, told: earlier.value as T, parts: [] };
  const endMs = performance.now() + attemptsMs;
  let lastMs = 0;
  for (let attempt = 1; ; attempt++) {
    const startMs = performance.now();
    try {
      const { parts, atVersion } = await shards.atOneVersion(deadline, undefined, async (at) => ({
        parts: await partsOf(at, deadline),
        atVersion: at.atVersion,
      }));
      const { told: answer, records } = toldOf(parts);
      if (records === 0 && once === undefined) return { version: atVersion, told: answer, parts };
      requireChangeableTogether(parts, records);
      const batch = concatenated([
        ...parts.map((each) => each.conditions),
        ...parts.map((each) => each.batch),
      ]);
      const { least, most } = holdMs;
      const hold = Math.ceil(
        Math.min(most, Math.max(least, 2 * Math.max(lastMs, performance.now() - startMs))),
      );
      const { version } = await writes.writeRecords(
        {
          kind: "change",
          batch,
          from: text,
          told: answer,
          ...(isExact && { ifVersion: atVersion }),
          ...(isRepeated && { holdMs: hold }),
        },
        `Changing ${counted(records, "record")}`,
        { records, bytes: batch.length },
        deadline,
      );
      return { version, told: answer, parts };
    } catch (error) {
      const isOvertaken = isQuiverError(error, isExact ? "version_changed" : "record_changed");
      if (!isRepeated || !isOvertaken || (attempt >= attemptsMax && performance.now() > endMs)) throw error;
      lastMs = performance.now() - startMs;
    }
  }
}

const recordsOf = (parts: readonly ShardChange[]): number =>
  parts.reduce((sum, { records }) => sum + records, 0);

/** The warnings of a change that has found nothing. */
const warned = (parts: readonly ShardChange[]) =>
  told(recordsOf(parts) > 0 ? null : { warnings: agreed(parts.map(({ warnings }) => warnings)) });

/** Versions with the records of all shards. */
async function counting(shards: Shards, versions: readonly Version[]): Promise<Version[]> {
  if (versions.length === 0) return [];
  const numbers = versions.map(({ version_number }) => version_number);
  const counts = await shards.all("counts", { versions: numbers }, Deadline.none);
  return versions.map((version, i) => ({
    ...version,
    vector_count: counts.reduce((sum, each) => sum + each[i], 0),
  }));
}

const versionOf = async (shards: Shards, number: number): Promise<Version> => {
  const entry = shards.home.parts.state.read((readTxn) => versionNumbered(readTxn, number));
  return (await counting(shards, [entry]))[0];
};

/** For a caller who sees all of the collection. */
export function shardedCalls(shards: Shards): CollectionCalls {
  const home = () => shards.home.calls;
  const options = (given?: CallOptions) => Deadline.of(given);

  const at = (when: When): PastCollection => {
    const versionOf = () => shards.home.parts.earlier.entryAt(when).version;
    const read = async (id: string) => {
      checkId(id, "vector_id");
      return received(await shards.ask(shards.of(id), "getAt", { id, version: versionOf() }, Deadline.none));
    };
    return {
      ...readingCalls(shards, null, versionOf),
      get: read,
      has: (id) => isThere(() => read(id)),
      search: (kind, request, given) =>
        searchShards(shards, shards.home.parts, kind, request, given, null, versionOf()),
    };
  };

  return {
    get name() {
      return home().name;
    },
    ...readingCalls(shards, null, () => undefined),
    search: (kind, request, given) =>
      searchShards(shards, shards.home.parts, kind, request, given, null, undefined),
    analyzeText: (request, given) => home().analyzeText(request, given),
    get: (async (id: string) => {
      checkId(id, "vector_id");
      return received(await shards.ask(shards.of(id), "get", { id }, Deadline.none, newest(shards)));
    }) as never,
    has: (async (id: string) => {
      checkId(id, "vector_id");
      return isThere(() => shards.ask(shards.of(id), "get", { id }, Deadline.none, newest(shards)));
    }) as never,
    async byDocument(document, given) {
      const vectors: StoredVector[] = [];
      await readingCalls(shards, null, () => undefined).eachOfDocument(
        document,
        (vector) => vectors.push(vector as StoredVector),
        given,
      );
      return vectors;
    },
    exportVectors: () => {
      throw new QuiverError(
        "invalid_request",
        "A collection of several shards is exported by exportMatching.",
      );
    },
    at,

    upsert: (vectors, given, condition) => home().upsert(vectors, given, condition),
    upsertEncoded: (batch, count, given, condition) => home().upsertEncoded(batch, count, given, condition),
    delete: (id, given, condition) => home().delete(id, given, condition),
    async deleteMatching(request, given) {
      checkFields(DeleteMatching, request);
      const { filter } = request;
      const made = await changeShards(
        shards,
        { kind: "deleteMatching", filter },
        given,
        (to, deadline) => shards.all("matching", { filter, change: { kind: "delete" } }, deadline, to),
        (parts) => ({ told: { deleted: recordsOf(parts) }, records: recordsOf(parts) }),
      );
      return { ...made.told, ...warned(made.parts) };
    },
    async updateMatching(request, given) {
      checkFields(ExactUpdateMatching, request);
      const { filter } = request;
      const patch = patchOf(request);
      const made = await changeShards(
        shards,
        { kind: "updateMatching", filter, patch },
        given,
        (to, deadline) => shards.all("matching", { filter, change: { kind: "patch", patch } }, deadline, to),
        (parts) => ({ told: { updated: recordsOf(parts) }, records: recordsOf(parts) }),
      );
      return { ...made.told, ...warned(made.parts) };
    },
    async patch(id, request, given) {
      checkId(id, "vector_id");
      checkFields(ExactPatch, request);
      const born = requiredBorn({ if_match: request.if_match ?? null });
      const args = { id, patch: patchOf(request), ...(born !== undefined && { born }) };
      await changeShards(
        shards,
        { kind: "patch", ...args },
        given,
        async (_, deadline) => [await shards.ask(shards.of(id), "patched", args, deadline, newest(shards))],
        (parts) => ({ told: {}, records: recordsOf(parts) }),
        { isRepeated: born === undefined },
      );
    },

    beginTransaction: (given) => home().beginTransaction(given),
    transaction: (id) => transactionOf(shards, id),
    transactions: () => home().transactions(),

    async restoreVersion(when, given) {
      const { version } = shards.home.parts.earlier.entryAt(when);
      const made = await changeShards(
        shards,
        { kind: "restoreVersion", version },
        given,
        (to, deadline) => shards.all("restored", { version }, deadline, to),
        (parts) => ({ told: {}, records: recordsOf(parts) }),
        // A record that is written meanwhile is none of the earlier version's.
        { isExact: true },
      );
      return versionOf(shards, made.version);
    },
    async setHistory(policy, given) {
      await home().setHistory(policy, given);
      return described(shards);
    },
    putTag: (name, when, given) => home().putTag(name, when, given),
    deleteTag: (name, given) => home().deleteTag(name, given),
    diff: (from, to, given) => {
      const { earlier } = shards.home.parts;
      const args = { from: earlier.entryAt(from).version, to: earlier.entryAt(to).version };
      return exportShards(shards, { diff: args }, {}, options(given));
    },
    changes: (request, given) => mergedChanges(shards, request ?? {}, options(given)),
    history: (async (id: string) => {
      checkId(id, "vector_id");
      const states = await shards.ask(shards.of(id), "history", { id }, Deadline.none, newest(shards));
      return { id, states: states.map((state) => ({ ...state, vector: received(state.vector) })) };
    }) as never,
    versions: (async (page: Parameters<Collection["versions"]>[0]) => {
      const list = home().versions(page);
      return { ...list, versions: await counting(shards, list.versions) };
    }) as never,
    currentVersion: (async () => (await counting(shards, [home().currentVersion()]))[0]) as never,
    version: (async (hash: string) => (await counting(shards, [home().version(hash)]))[0]) as never,

    createIndex: (kind, definition, given) => home().createIndex(kind, definition, given),
    deleteIndex: (kind, given) => home().deleteIndex(kind, given),
    createMetadataIndex: (field, request, given) => home().createMetadataIndex(field, request, given),
    deleteMetadataIndex: (field, given) => home().deleteMetadataIndex(field, given),
    indexes: (async () =>
      unitedIndexes(await shards.all("indexes", undefined as never, Deadline.none, latest(shards)))) as never,
    metadataIndexes: (async () => {
      const all = await shards.all("metadataIndexes", undefined as never, Deadline.none, latest(shards));
      const indexes = all[0].indexes.map(({ status: _, ...definition }) => ({
        ...definition,
        status: unitedStatus(
          all.flatMap((each) => each.indexes.find(({ field }) => field === definition.field)?.status ?? []),
        ),
      }));
      return { indexes } as MetadataIndexes;
    }) as never,
    async measureRecall(given, call) {
      const wanted = given?.sample ?? limits.recallSampleDefault;
      // The first shards take what is left over; each measures one at least.
      const sampleOf = (number: number) =>
        Math.max(1, Math.floor(wanted / shards.count) + Number(number < wanted % shards.count));
      const args = (number: number) => ({ ...given, sample: sampleOf(number) });
      const all = await shards.all("measureRecall", args, options(call), latest(shards));
      const queries = all.reduce((sum, each) => sum + each.queries, 0);
      const mean = (of: (each: (typeof all)[number]) => number) =>
        queries === 0 ? of(all[0]) : all.reduce((sum, each) => sum + of(each) * each.queries, 0) / queries;
      return {
        ...all[0],
        recall: mean(({ recall }) => recall),
        worst_recall: Math.min(...all.map((each) => each.worst_recall)),
        queries,
        version: Math.max(...all.map((each) => each.version)),
        search_ms: mean((each) => each.search_ms),
        exact_ms: mean((each) => each.exact_ms),
      };
    },
    async indexed() {
      await shards.all("indexed", undefined as never, Deadline.none, latest(shards));
    },
    async check() {
      // A node runs one check at a time.
      const reports: CheckReport[] = [];
      for (const number of shards.numbers)
        reports.push(await shards.ask(number, "check", undefined as never, Deadline.none));
      return unitedReports(reports, home().name);
    },
    describe: () => described(shards),
    async load(given) {
      return unitedDetails(await shards.all("load", undefined as never, options(given), latest(shards)));
    },
    async unload() {
      await shards.all("unload", undefined as never, Deadline.none);
    },
  };
}

/** Takes over what a copy has changed since it was made: shard by shard, since both have the same records in the same shards. */
export async function mergeShards(
  shards: Shards,
  copy: Shards,
  request: MergeCollection,
  given?: CallOptions,
): Promise<Merged> {
  checkFields(MergeCollection, request);
  const copyId = copy.collectionId;
  // A tag makes no version: the states that shards keep may still have it.
  copy.home.parts.state.read((readTxn) => originOf(readTxn, copy.home.calls.name));
  const made = await changeShards(
    shards,
    { kind: "merge", copyId, on_conflict: request.on_conflict ?? null },
    given,
    (to, deadline) =>
      atCopyVersion(copy, deadline, (copyVersion) => {
        const of = (number: number) => ({ copyId: shardIdOf(copyId, number), copyVersion, request });
        return shards.all("merged", of, deadline, to);
      }),
    (parts) => toldOf(parts, request),
  );
  return { version: await versionOf(shards, made.version), ...made.told };
}

/** Runs `act` with a version that all shards of a copy can be read at, inside of what is read of its original. */
async function atCopyVersion<T>(
  copy: Shards,
  deadline: Deadline,
  act: (copyVersion: number) => Promise<T>,
): Promise<T> {
  const found = await copy.atOneVersion(deadline, undefined, async ({ atVersion }) => {
    try {
      return { value: await act(atVersion) };
    } catch (error) {
      if (isQuiverError(error, "not_ready") && "copy_boundary" in error.details)
        throw passed(atVersion, error.details.copy_boundary as number);
      // What the original cannot be read at is chosen again for the original.
      if (boundaryOf(error) !== undefined) return { ofOriginal: error };
      throw error;
    }
  });
  if ("ofOriginal" in found) throw found.ofOriginal;
  return found.value as T;
}

/** For a caller who sees only some records, and writes none: whether a write is allowed depends on records of all shards. */
export function restrictedShardedCalls(shards: Shards, filter: Filter): RestrictedCalls {
  const key = new KeyFilter(filter);
  const refuse = (): never => {
    throw new QuiverError(
      "forbidden",
      "A key with a filter cannot write to a collection of several shards. Send a key without a filter.",
    );
  };
  const reading = readingCalls(shards, key, () => undefined);
  return discreet<RestrictedCalls>({
    get name() {
      return shards.home.calls.name;
    },
    async describe() {
      const { disk_bytes: _, ...detail } = await described(shards);
      return { ...detail, vectors_count: (await reading.count({}, undefined)).count };
    },
    ...reading,
    search: (kind, request, given) =>
      searchShards(shards, shards.home.parts, kind, request, given, key, undefined),
    analyzeText: (request, given) => shards.home.calls.analyzeText(request, given),
    get: (async (id: string) => {
      checkId(id, "vector_id");
      return received(await shards.ask(shards.of(id), "get", { id }, Deadline.none, newest(shards)));
    }) as never,
    has: (async (id: string) => {
      checkId(id, "vector_id");
      return isThere(() => shards.ask(shards.of(id), "get", { id }, Deadline.none, newest(shards)));
    }) as never,
    upsert: async () => refuse(),
    upsertEncoded: async () => refuse(),
    delete: async () => refuse(),
    deleteMatching: async () => refuse(),
    updateMatching: async () => refuse(),
    patch: async () => refuse(),
    beginTransaction: async () => refuse(),
    transaction: (id) => {
      const transaction = shards.home.restrictedTo(key).transaction(id);
      return {
        ...transaction,
        add: async () => refuse(),
        upsert: async () => refuse(),
        commit: async () => refuse(),
      };
    },
    transactions: () => shards.home.restrictedTo(key).transactions(),
  });
}

/** A shard is asked when it has what this node's clients have seen. */
const newest = (shards: Shards): ShardOptions => ({ notBefore: shards.home.parts.state.seenVersion });

/** The same, with what makes no version: transactions that are open, and definitions of indexes. */
const latest = (shards: Shards): ShardOptions => ({
  ...newest(shards),
  applied: shards.home.place.position,
});

async function isThere(read: () => Promise<unknown>): Promise<boolean> {
  try {
    await read();
    return true;
  } catch (error) {
    if (isQuiverError(error, "vector_not_found")) return false;
    throw error;
  }
}

const described = async (shards: Shards): Promise<CollectionDetail> =>
  unitedDetails(await shards.all("describe", undefined as never, Deadline.none, latest(shards)));

function unitedDetails(all: readonly CollectionDetail[]): CollectionDetail {
  const sum = (of: (detail: CollectionDetail) => number) => all.reduce((total, each) => total + of(each), 0);
  return {
    ...all[0],
    vectors_count: sum(({ vectors_count }) => vectors_count),
    loaded: all.every(({ loaded }) => loaded),
    disk_bytes: sum(({ disk_bytes = 0 }) => disk_bytes),
  };
}

type Status = NonNullable<Indexes["dense"]>["status"];
const states = ["unloaded", "building", "ready"] as const;
/** What only some kinds of indexes tell. */
const summedWhereThere = [
  "records_in_tail",
  "distinct_vectors",
  "graphs",
  "graph_bytes",
  "recall_table_records",
] as const;

/** The status of an index of all shards: as far as the shard is that is the furthest behind. */
function unitedStatus(all: readonly Status[]): Status {
  const [first] = all;
  const sum = (of: (status: Status) => number) => all.reduce((total, each) => total + of(each), 0);
  const least = (of: (status: Status) => number) => Math.min(...all.map(of));
  const failure = all.find((each) => each.failure !== undefined)?.failure;
  const total = sum(({ records_total }) => records_total);
  return {
    ...first,
    state: states[least(({ state }) => states.indexOf(state))],
    records_indexed: sum(({ records_indexed }) => records_indexed),
    records_total: total,
    ...(failure !== undefined && { failure }),
    percentage_complete: least(({ percentage_complete }) => percentage_complete),
    watermark: least(({ watermark }) => watermark),
    complete_version: least(({ complete_version }) => complete_version),
    memory_bytes: sum(({ memory_bytes }) => memory_bytes),
    ...Object.fromEntries(
      summedWhereThere
        .filter((name) => first[name] !== undefined)
        .map((name) => [name, sum(({ [name]: value = 0 }) => value)]),
    ),
  };
}

function unitedIndexes(all: readonly Indexes[]): Indexes {
  const united = Object.entries(all[0]).map(([kind, index]) => [
    kind,
    {
      ...index,
      status: unitedStatus(all.flatMap((each) => each[kind as keyof Indexes]?.status ?? [])),
    },
  ]);
  return Object.fromEntries(united) as Indexes;
}

function unitedReports(all: readonly CheckReport[], name: string): CheckReport {
  const checked = all.flatMap(({ collections }) => collections);
  return {
    ...all[0],
    findings: all.flatMap(({ findings }) => findings),
    findings_total: all.reduce((sum, { findings_total }) => sum + findings_total, 0),
    collections: [{ ...checked[0], name, records: checked.reduce((sum, { records }) => sum + records, 0) }],
  };
}

/** @throws invalid_request if the changes of all shards are too much for one version */
function requireChangeableTogether(parts: readonly Part[], records: number): void {
  const bytes = parts.reduce((sum, { batch }) => sum + batch.length, 0);
  if (records <= limits.changeRecordsMax && bytes <= limits.changeBytesMax) return;
  throw new QuiverError(
    "invalid_request",
    `${records} records with ${bytes} bytes would be changed, at most ${limits.changeRecordsMax} and ${limits.changeBytesMax} bytes are, as one version; nothing was changed. Narrow the filter, and send several requests.`,
    { path: "filter", records, limit_records: limits.changeRecordsMax, limit_bytes: limits.changeBytesMax },
  );
}
