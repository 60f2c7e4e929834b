// What does a shard do for its collection?
//
// A collection of several shards is one of their owners' calls away from being one store: each shard answers for its own records, at the version
// that all are asked for, and the collection puts the answers together (sharded-collection.ts). A shard is in this process, or on another node,
// which is sent the name of a method and its arguments. So arguments and answers are data (structured clone).

import { QuiverError } from "@quiverdb/protocol/errors";
import type { MergeCollection } from "@quiverdb/protocol/shapes/collection";
import type { FilterValue } from "@quiverdb/protocol/shapes/filter";
import type { FacetVectors } from "@quiverdb/protocol/shapes/matching";
import type { SearchResponse } from "@quiverdb/protocol/shapes/search";
import type { Warning } from "@quiverdb/protocol/shapes/warning";
import { ByteWriter, emptyBytes, utf8 } from "../../base/bytes.ts";
import { type CallLimits, Deadline } from "../../base/deadline.ts";
import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import type { RecordChange } from "../../collection/change-matching.ts";
import { requireChangeable } from "../../collection/change-matching.ts";
import { readHead } from "../../collection/head.ts";
import { denseAt, storedAt, versionAt } from "../../collection/history.ts";
import { KeyFilter } from "../../collection/key-filter.ts";
import { readPlace } from "../../collection/place.ts";
import { ordinalOf, type StoredBytes, type StoredVector } from "../../collection/reading.ts";
import { operationBytes, RecordReader, writeCondition } from "../../collection/record.ts";
import { bornOf } from "../../collection/shard.ts";
import { ordinalKey } from "../../collection/tables.ts";
import { readVersion } from "../../collection/versions.ts";
import { timesOf } from "../../filter/filter.ts";
import { Predicate } from "../../filter/predicate.ts";
import type { Leg } from "../../index/kind.ts";
import { kindNamed } from "../../index/registry.ts";
import { planned } from "../../query/answer.ts";
import { accountOf, Explainer } from "../../query/explain.ts";
import { kindsOf, type Plan, type SearchKind } from "../../query/plan.ts";
import { fetchAll, type PostedResponse, postedResponse, ResultSize } from "../../query/result.ts";
import { eachQuery, legDepth, type QueryRun, runLeg, tellsOfWork, waysOf } from "../../query/search.ts";
import { firstDepth, type HitReader, hitsIn } from "../../query/selection.ts";
import type { SearchedView } from "../../views/view.ts";
import { changesBetween } from "../collection/earlier-versions.ts";
import { boundaryOf } from "../collection/exact-versions.ts";
import { facetLimit, type ScrollPage } from "../collection/matches.ts";
import type { ShardChange } from "../collection/writes.ts";
import type { CollectionParts } from "../collection-calls.ts";
import type { Collection, ExportMatching } from "../contract.ts";
import type { ShardCall } from "./call.ts";
import { closeLines, nextLines, openLines } from "./open-lines.ts";

/** Which legs: those of a request, or in their place others, with what all shards told of each (`Kind.unite`). */
export type AskedLegs = {
  readonly kind: SearchKind;
  readonly request: object;
  readonly legs?: Leg[][];
  readonly among?: readonly (readonly unknown[])[];
};

/** What a shard found for a query. */
export type FoundInShard = {
  /** The hits of each leg, best first. */
  readonly legs: readonly { readonly ordinals: readonly number[]; readonly scores: readonly number[] }[];
  /** Of all hits; `group`: by the plan's field; `dense`: where the plan is for diverse results. */
  readonly records: readonly FoundRecord[];
  readonly warnings: readonly Warning[];
  readonly filter?: SearchResponse["filter"];
  readonly account?: Pick<SearchResponse, "legs" | "walk">;
};

export type FoundRecord = {
  readonly ordinal: number;
  readonly id: string;
  readonly documentId: string | null;
  readonly group?: string | number | boolean | null;
  readonly dense?: Uint8Array;
};

/** Hits of a query that are results; `explained`: for each leg, the ordinals of those that it found; absent: no explanations. */
export type WantedHits = {
  readonly hits: readonly { readonly ordinal: number; readonly score: number }[];
  readonly explained?: readonly (readonly number[])[];
};

/** An export of the records that match, at `version` if that is an earlier one; or what differs between two versions. */
export type AskedLines = {
  readonly request?: ExportMatching;
  readonly version?: number;
  readonly diff?: { readonly from: number; readonly to: number };
  /** Whether records are wanted as they are stored. */
  readonly isStored?: boolean;
};

// Generators of this module, for the reason that query/search.ts gives.

function* tellOf({ query, legsOf }: QueryRun, told: unknown[][]): Steps<void> {
  told[query] = [];
  for (const leg of legsOf()) {
    const telling = leg.tell();
    told[query].push(telling && (yield* telling));
  }
}

type Finding = {
  readonly view: SearchedView;
  readonly plan: Plan;
  /** Hits of each leg. */
  readonly k: number;
  readonly groupOf: ((ordinal: number) => FilterValue | null) | null;
  /** Null: vectors are not needed. */
  readonly vectorOf: HitReader["vectorOf"] | null;
  readonly found: FoundInShard[];
};

function* findOf({ query, legsOf, filtered }: QueryRun, finding: Finding): Steps<void> {
  const { view, plan, k, groupOf, vectorOf, found } = finding;
  const idOf = (ordinal: number) => view.recordIds.of(view.readTxn, ordinal).id;
  const legs = legsOf();
  const records = new Map<number, FoundRecord>();
  const hits: FoundInShard["legs"][number][] = [];
  for (const leg of legs) {
    const ranked = yield* runLeg(idOf, leg, plan, k);
    for (const [i, { ordinal }] of ranked.entries()) {
      if (i % recordsPerStep === recordsPerStep - 1) yield;
      if (records.has(ordinal)) continue;
      const { id, documentId } = view.recordIds.of(view.readTxn, ordinal);
      records.set(ordinal, {
        ordinal,
        id,
        documentId,
        ...(groupOf && { group: groupOf(ordinal) }),
        ...(vectorOf && { dense: vectorOf(ordinal).slice() }),
      });
    }
    hits.push({
      ordinals: ranked.map(({ ordinal }) => ordinal),
      scores: ranked.map(({ score }) => score),
    });
  }
  const account = tellsOfWork(plan) ? yield* accountOf(view, legs, plan) : undefined;
  found[query] = {
    legs: hits,
    records: [...records.values()],
    warnings: filtered?.warnings ?? [],
    ...(filtered?.explained && { filter: { ...filtered.explained, legs: waysOf(legs, k) } }),
    ...(account && { account }),
  };
}

/** Results of a query, and what its legs explain of them. */
type AnsweredInShard = { response: PostedResponse; details: (readonly object[])[] };

type Fetching = {
  readonly view: SearchedView;
  readonly plan: Plan;
  readonly depth: number;
  readonly size: ResultSize;
  readonly explainer: Explainer;
  readonly wanted: readonly WantedHits[];
  readonly answers: AnsweredInShard[];
};

function* resultsOf({ query, legsOf }: QueryRun, fetching: Fetching): Steps<void> {
  const { view, plan, depth, size, explainer, wanted, answers } = fetching;
  const { hits, explained } = wanted[query];
  const details: (readonly object[])[] = [];
  // A leg explains what it has searched last.
  for (const [i, leg] of explained === undefined ? [] : legsOf().entries()) {
    yield* leg.search(legDepth(plan, depth));
    details.push(yield* explainer.details(leg, explained?.[i] ?? []));
  }
  const results = yield* fetchAll(view, hits, plan, size);
  answers[query] = { response: postedResponse({ results }), details };
}

type Shape = Record<
  string,
  (parts: CollectionParts, args: never, deadline: Deadline, key: KeyFilter | null) => unknown
>;

/** What can be asked of a shard. */
export const shardMethods = {
  // ---- Searching

  /** What the other shards must know of each leg. */
  async tell(parts, asked: AskedLegs, deadline, key): Promise<unknown[][]> {
    const told: unknown[][] = [];
    await searching(parts, asked, deadline, key, () => (query) => tellOf(query, told));
    return told;
  },

  /** The hits of each leg. @param depth how many are ranked */
  async find(
    parts,
    { depth, ...asked }: AskedLegs & { depth: number },
    deadline,
    key,
  ): Promise<FoundInShard[]> {
    const found: FoundInShard[] = [];
    await searching(parts, asked, deadline, key, (plan, view) => {
      const k = legDepth(plan, depth);
      const { group, diversity } = plan.selection;
      const reader = hitsIn(view);
      const groupOf = group && reader.groupsBy(group.field);
      const finding = { view, plan, k, groupOf, vectorOf: diversity && reader.vectorOf, found };
      return (query) => findOf(query, finding);
    });
    return found;
  },

  /** Hits as results, for each query. */
  async results(
    parts,
    { wanted, depth, ...asked }: AskedLegs & { wanted: readonly WantedHits[]; depth: number },
    deadline,
    key,
  ): Promise<AnsweredInShard[]> {
    const answers: AnsweredInShard[] = [];
    await searching(parts, asked, deadline, key, (plan, view) => {
      const size = new ResultSize();
      const explainer = new Explainer(plan.fusion);
      const fetching = { view, plan, depth, size, explainer, wanted, answers };
      return (query) => resultsOf(query, fetching);
    });
    return answers;
  },

  /** The vectors of records, by their ids; undefined for one that is not there. */
  async examples(parts, { ids }: { ids: readonly string[] }, deadline, key) {
    const { version, definitions, release } = parts.state.filtered(deadline.atVersion);
    try {
      const sees = key && new Predicate(key.at(timesOf(definitions)));
      return ids.map((id) => {
        const ordinal = ordinalOf(version.readTxn, id, sees);
        if (ordinal === undefined) return undefined;
        return { ordinal, dense: version.readTxn.get("dense", ordinalKey(ordinal))?.slice() };
      });
    } finally {
      release();
    }
  },

  // ---- Reading

  count: ({ matches }, request: Parameters<Collection["count"]>[0], deadline, key) =>
    matches.count(request, deadline, key),
  facet: ({ matches }, { request, limit }: { request: FacetVectors; limit: number }, deadline, key) => {
    facetLimit(request);
    return matches.facet(request, deadline, key, limit);
  },
  async page(parts, { filter, page }: { filter: unknown; page: ScrollPage }, deadline, key) {
    const { vectors, ...rest } = await parts.matches.page(filter, page, deadline, key);
    return { ...rest, vectors: vectors.map((vector) => vector.stored) };
  },
  async fetch(
    { matches },
    { ids }: { ids: readonly string[] },
    deadline,
    key,
  ): Promise<(StoredBytes | null)[]> {
    const found = await matches.fetch({ ids: [...ids] }, deadline, key);
    return found.map((vector) => vector?.stored ?? null);
  },
  async document({ records }, { id }: { id: string }, deadline, key): Promise<StoredBytes[]> {
    const vectors: StoredBytes[] = [];
    await records.eachOfDocument(id, (vector) => vectors.push(vector.stored), deadline, key);
    return vectors;
  },
  async changes({ changes }, request: Parameters<Collection["changes"]>[0], deadline) {
    const page = await changes.read(request ?? {}, deadline);
    return {
      ...page,
      changes: page.changes.map(({ vector, ...change }) => ({
        ...change,
        ...(vector && { vector: (vector as StoredVector & { bytes: number }).stored }),
      })),
    };
  },
  history({ earlier }, { id }: { id: string }) {
    const { states } = earlier.history(id);
    return states.map(({ vector, ...state }) => ({ ...state, vector: (vector as StoredVector).stored }));
  },
  get: ({ records }, { id }: { id: string }, _deadline, key): StoredBytes => records.get(id, key).stored,
  async getAt({ earlier }, { id, version }: { id: string; version: number }): Promise<StoredBytes> {
    return ((await earlier.at({ version }).get(id)) as StoredVector).stored;
  },
  /** Live records at versions, once the shard has them. */
  async counts({ state }, { versions }: { versions: readonly number[] }, deadline): Promise<number[]> {
    await reached(state, Math.max(...versions), deadline);
    return state.read((readTxn) => versions.map((version) => readVersion(readTxn, version)?.live ?? 0));
  },

  /** Begins to read lines: of an export, or of the differences of two versions. */
  async openLines(
    { records, earlier },
    { request = {}, version, diff, isStored = false }: AskedLines,
    deadline,
    key,
  ) {
    const past = version === undefined ? undefined : earlier.at({ version });
    return openLines(
      diff !== undefined
        ? await earlier.diff({ version: diff.from }, { version: diff.to }, deadline)
        : past !== undefined
          ? await past.exportMatching(request, deadline)
          : await records.exportMatching(request, deadline, key),
      isStored,
    );
  },
  nextLines: (_, { id }: { id: string }) => nextLines(id),
  closeLines: (_, { id }: { id: string }) => closeLines(id),

  // ---- Changing: what the shard's part of a change is. The collection writes it.

  matching: ({ writes }, { filter, change }: { filter: unknown; change: RecordChange }, deadline) =>
    writes.changeOfShard(filter, change, deadline),
  patched: ({ writes }, { id, patch, born }: { id: string; patch: string; born?: number }) =>
    writes.patchOfShard(id, patch, born),
  /** What makes the records those of an earlier version. */
  async restored({ state }, { version }: { version: number }, deadline): Promise<ShardChange> {
    const { readTxn, release } = state.served(deadline.atVersion);
    try {
      const { version: current } = readHead(readTxn);
      const from = readVersion(readTxn, current);
      invariant(from !== undefined, `version ${current} is not in the log`);
      const to = versionAt(readTxn, { version }, state.dependencies.clock());
      const changes = await deadline.task.finish(changesBetween(readTxn, from, to));
      requireChangeable(changes.length);
      const [conditions, batch] = [new ByteWriter(), new ByteWriter()];
      for (const { id, ordinal } of changes) {
        const key = utf8(id);
        writeCondition(conditions, id, bornOf(readTxn, key));
        const stored = ordinal === undefined ? undefined : storedAt(readTxn, ordinal);
        if (stored === undefined) batch.bytes(operationBytes({ kind: "delete", id: key }));
        else {
          const { content, contents } = new RecordReader(stored.record);
          const dense = contents.dense ? denseAt(readTxn, stored).slice() : emptyBytes;
          batch.bytes(operationBytes({ kind: "upsert", id: key, content, dense }));
        }
      }
      return { conditions: conditions.take(), batch: batch.take(), records: changes.length, warnings: [] };
    } finally {
      release();
    }
  },

  /** What a copy has changed since it was made, of this shard. */
  merged: (
    { merging },
    { copyId, copyVersion, request }: { copyId: string; copyVersion: number; request: MergeCollection },
    deadline,
  ) => merging.ofShard(copyId, copyVersion, request, deadline),

  // ---- Administration

  describe: ({ describe }) => describe(),
  async load({ load, describe }, _: unknown, deadline) {
    await load.load(deadline);
    return describe();
  },
  unload: ({ load }) => load.unload(),
  indexes: ({ indexes }) => indexes.indexes(),
  metadataIndexes: ({ indexes }) => indexes.metadataIndexes(),
  indexed: ({ state }) => state.indexed(),
  check: ({ checks }) => checks.check(),
  measureRecall: ({ searches }, options: Parameters<Collection["measureRecall"]>[0], deadline) =>
    searches.measureRecall(options, deadline),
  status: ({ transactions }, { id, isFlat }: { id: string; isFlat: boolean }) => {
    const transaction = transactions.transaction(id);
    return isFlat ? transaction.flatStatus() : transaction.status();
  },
} satisfies Shape;

export type ShardMethods = typeof shardMethods;
export type ShardMethod = keyof ShardMethods;
export type ShardArgs<M extends ShardMethod> = Parameters<ShardMethods[M]>[1];
export type ShardAnswer<M extends ShardMethod> = Awaited<ReturnType<ShardMethods[M]>>;

/** How long one write is waited for before the deadline is looked at. */
const waitMs = 100;
/** How long a shard is waited for that is behind what it is asked for. */
const lateMs = 10_000;

/** Records that are looked at in a step. */
const recordsPerStep = 128;

/** Resolves when a shard has a version, which later reads see. */
async function reached(state: CollectionParts["state"], version: number, deadline: Deadline): Promise<void> {
  if (version <= state.seenVersion) return;
  await written(state, version, deadline);
  state.markSeen(version);
}

/** Resolves when the store of a shard has a version. */
async function written(state: CollectionParts["state"], version: number, deadline: Deadline): Promise<void> {
  const endMs = performance.now() + lateMs;
  while (version > state.seenVersion && state.read((_, head) => head.version) < version) {
    deadline.check();
    requireInTime(state, endMs);
    await state.nextWrite(waitMs, deadline);
  }
}

/** @throws not_ready */
function requireInTime(state: CollectionParts["state"], endMs: number): void {
  if (performance.now() < endMs) return;
  const { definition } = state;
  throw new QuiverError(
    "not_ready",
    `The shard ${definition.shard?.number} of the collection '${state.name}' is behind what was asked for. Send the request again.`,
    { collection: state.name, shard: definition.shard?.number, retry_after_seconds: 1 },
  );
}

/** Resolves when a shard has applied the log up to a position. */
async function reachedPosition(
  state: CollectionParts["state"],
  position: number,
  deadline: Deadline,
): Promise<void> {
  const endMs = performance.now() + lateMs;
  while (state.appliedPosition < position) {
    deadline.check();
    requireInTime(state, endMs);
    state.appliedPosition = state.read((readTxn) => readPlace(readTxn).position);
    if (state.appliedPosition < position) await state.nextWrite(waitMs, deadline);
  }
}

/** Plans a request, and runs its queries on a view. @param runOf what is done with each, of the plan and the view */
async function searching(
  parts: CollectionParts,
  { kind, request, legs, among }: AskedLegs,
  deadline: Deadline,
  key: KeyFilter | null,
  runOf: (plan: Plan, view: SearchedView) => (query: QueryRun) => Generator<void, void>,
): Promise<void> {
  const { searches } = parts;
  const { examples: _, ...plan } = await planned(searches, kind, request as never, deadline, key);
  if (legs !== undefined) plan.queries = legs;
  for (const [query, ofLegs] of among?.entries() ?? [])
    for (const [i, told] of ofLegs.entries()) if (told !== undefined) plan.queries[query][i].among = told;
  const needed = kindsOf(plan);
  const view = await searches.acquireView(needed, deadline);
  try {
    const hasBeams = needed.some((each) => kindNamed(each).measuring !== undefined);
    const beam = hasBeams
      ? await searches.beamOfLegs(plan.beam, legDepth(plan, firstDepth(plan)), view)
      : { ef: undefined };
    await deadline.task.finish(eachQuery(view, plan, searches.lookUpIn(view), beam, runOf(plan, view)));
  } finally {
    view.unpin();
  }
}

/** Runs a method of a shard of this process. @param limits of the call */
export async function runInShard(
  parts: CollectionParts,
  { method, args, options }: ShardCall,
  limits: CallLimits,
): Promise<unknown> {
  const { atVersion, notBefore = 0, applied = 0, isPast = false, keyFilter } = options;
  const key = keyFilter === undefined ? null : new KeyFilter(keyFilter);
  const run = (shardMethods as Record<string, Shape[string]>)[method];
  invariant(run !== undefined, `a shard has no method '${method}'`);
  const { state } = parts;
  return state.gate.pass(async () => {
    const deadline = Deadline.of({ ...limits, atVersion });
    await reachedPosition(state, applied, deadline);
    await reached(state, notBefore, deadline);
    await written(state, atVersion ?? 0, deadline);
    if (atVersion === undefined) return run(parts, args as never, deadline, key);
    try {
      return await state.exact.use(atVersion, deadline, async () => run(parts, args as never, deadline, key));
    } catch (error) {
      if (!isPast || boundaryOf(error) === undefined) throw error;
    }
    const version = state.read((readTxn) => readVersion(readTxn, atVersion));
    invariant(version !== undefined, `version ${atVersion} is not in the log`);
    const call = { method, args, options: keyFilter === undefined ? {} : { keyFilter } };
    return state.dependencies.askAtVersion(state.entry, version, call, limits);
  });
}
