// How does a write reach the writer, and when is it acknowledged?
//
// A write is acknowledged when it is durable and searches see it. A write that needs more memory than there is, or that would leave the
// indexes too far behind, waits or is rejected before the writer gets it.

import { counted } from "@quiverdb/protocol/counted";
import { fieldError, QuiverError } from "@quiverdb/protocol/errors";
import { checkFields } from "@quiverdb/protocol/fields";
import { kindOf } from "@quiverdb/protocol/kind-of";
import { limits } from "@quiverdb/protocol/limits";
import {
  type Deleted,
  DeleteMatching,
  ExactPatch,
  ExactUpdateMatching,
  type Updated,
} from "@quiverdb/protocol/shapes/matching";
import type { Warning } from "@quiverdb/protocol/shapes/warning";
import { ByteWriter, emptyBytes, text, utf8 } from "../../base/bytes.ts";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import { fingerprint, type LoggedRequest } from "../../collection/accept.ts";
import {
  changeOf,
  type Matching,
  MatchingBatch,
  type RecordChange,
  requireChangeable,
} from "../../collection/change-matching.ts";
import { readHead } from "../../collection/head.ts";
import { type KeyFilter, KeyFilterRules, type WriterKeyFilter, within } from "../../collection/key-filter.ts";
import { readConditions, readOperations, writeCondition } from "../../collection/record.ts";
import {
  checkId,
  encodeDelete,
  encodeUpsertsInSteps,
  requiredBorn,
  type VectorWrite,
} from "../../collection/schema.ts";
import { bornOf } from "../../collection/shard.ts";
import { invalidFilter } from "../../filter/condition.ts";
import { type Filter, leavesOf, timesOf, withTimes } from "../../filter/filter.ts";
import { readFilter } from "../../filter/read-filter.ts";
import { findVisible, told } from "../../query/filter/warnings.ts";
import type { Reader } from "../../storage/store.ts";
import { invalid } from "../../vector/given.ts";
import type { WriteCondition } from "../contract.ts";
import type { CollectionMemory } from "./memory.ts";
import type { CollectionState } from "./state.ts";

/** What a write takes. `transientBytes`: beside its own bytes, until it is done. */
type WriteSize = { readonly records: number; readonly bytes: number; readonly transientBytes?: number };

/** Records of one version, which is kept until they are released. */
type FoundRecords = {
  readonly count: number;
  readonly warnings: readonly Warning[];
  readonly readTxn: Reader;
  encoded(change: RecordChange): Promise<{ matching: Matching; batch: Uint8Array }>;
  release(): void;
};

/** What a change by filter does to the records of a shard, each on the condition that it is still the one that was found. */
export type ShardChange = {
  readonly conditions: Uint8Array;
  readonly batch: Uint8Array;
  readonly records: number;
  readonly warnings: readonly Warning[];
};

export class Writes {
  readonly #state: CollectionState;
  readonly #memory: CollectionMemory;
  readonly #unindexed = new UnindexedBytes();

  constructor(state: CollectionState, memory: CollectionMemory) {
    this.#state = state;
    this.#memory = memory;
  }

  async write(
    request: LoggedRequest,
    deadline: Deadline = Deadline.none,
  ): Promise<{ version: number; value: unknown }> {
    this.#state.gate.assertOpen();
    if (this.#state.isHeld && !("holdMs" in request)) await this.#state.unheld(deadline);
    deadline.check();
    const { idempotencyKey: key } = deadline;
    const keyed =
      key === undefined ? request : { ...request, once: { key, fingerprint: fingerprint(request) } };
    const written = await this.#state.dependencies.write(this.#state.entry.internalId, keyed);
    this.#state.wrote(written.version);
    return written;
  }

  /**
   * Writes a version. Resolves when a view contains it, or when the backlog is small: then searches need not wait for the indexes.
   * @param bytes size of the write
   * @param patience bounds the waiting for the view. It is not the deadline of the caller: a client that gives up must not leave the
   * waiting to others
   */
  async #writeVersion(
    request: LoggedRequest,
    bytes: number,
    deadline: Deadline,
    patience = Deadline.none,
  ): Promise<{ version: number; value: unknown }> {
    const end = this.#unindexed.begin(bytes);
    try {
      const storing = deadline.trace?.begin("store", { kind: request.kind, bytes });
      const written = await this.write(request, deadline);
      storing?.end({ version: written.version });
      end(written.version);
      const indexer = this.#state.indexer;
      const served = indexer === null ? Number.POSITIVE_INFINITY : (indexer.viewAt(0)?.version ?? -1);
      if (!this.#unindexed.isLittle(served)) await indexer?.published(written.version, patience);
      this.#state.markSeen(written.version);
      return written;
    } catch (error) {
      end();
      throw error;
    }
  }

  /** Reserves memory for a write that adds records, and passes it to the writer. The deadline counts until then. */
  writeRecords(
    request: LoggedRequest,
    what: string,
    size: WriteSize,
    deadline: Deadline,
  ): Promise<{ version: number; value: unknown }> {
    const patience =
      request.kind === "commit" ? Deadline.of({ timeoutMs: limits.commitWaitMs }) : Deadline.none;
    return this.#reserving(what, size, () => this.#writeVersion(request, size.bytes, deadline, patience));
  }

  /** Runs a write while the memory for it is reserved. */
  async #reserving<T>(
    what: string,
    { records, bytes, transientBytes = 0 }: WriteSize,
    write: () => Promise<T>,
  ): Promise<T> {
    if (!this.#memory.isLimited) return write();
    const growth = this.#memory.growthBy(records, bytes);
    if (!this.#state.isLoaded)
      this.#memory.refuseUnloadable(`${what} in the collection '${this.#state.name}'`, growth);
    const indexBytes = this.#state.isLoaded ? growth : 0;
    const done = await this.#memory.admit(
      `${what} in the collection '${this.#state.name}'`,
      indexBytes,
      bytes + transientBytes,
    );
    try {
      return await write();
    } finally {
      done();
    }
  }

  /** @param keyFilter of the caller, here and below; null: it sees all records */
  upsert(
    vectors: readonly VectorWrite[],
    options?: CallOptions,
    keyFilter: KeyFilter | null = null,
    condition?: WriteCondition,
  ): Promise<void> {
    return this.#state.gate.pass(async () => {
      const deadline = Deadline.of(options);
      // Small requests are encoded and passed on synchronously, before the caller can change the arrays.
      const encoded = deadline.task.begin(encodeUpsertsInSteps(this.#state.definition, vectors, "vectors"));
      await this.#upsertBatch(
        encoded instanceof Promise ? await encoded : encoded,
        vectors.length,
        deadline,
        keyFilter,
        condition,
      );
    });
  }

  /** The same for records that another thread has encoded (`encodeUpsertsInSteps`). */
  upsertEncoded(
    batch: Uint8Array,
    records: number,
    options?: CallOptions,
    keyFilter: KeyFilter | null = null,
    condition?: WriteCondition,
  ): Promise<void> {
    return this.#state.gate.pass(() =>
      this.#upsertBatch(batch, records, Deadline.of(options), keyFilter, condition),
    );
  }

  /** The filter of a caller as it accompanies a request. */
  ofKeyFilter(keyFilter: KeyFilter | null): { keyFilter?: WriterKeyFilter } {
    return keyFilter === null ? {} : { keyFilter: keyFilter.toWriter(this.#state.isTime()) };
  }

  async #upsertBatch(
    batch: Uint8Array,
    records: number,
    deadline: Deadline,
    keyFilter: KeyFilter | null,
    condition?: WriteCondition,
  ): Promise<void> {
    const ifVersion = conditionOf(condition, keyFilter);
    requireNoBorn(batch, keyFilter);
    if (batch.length === 0) return;
    const admitted = this.#indexesTakeMore(records, deadline);
    if (admitted) await admitted;
    const size = { records, bytes: batch.length };
    await this.writeRecords(
      { kind: "upsert", batch, ...ifVersion, ...this.ofKeyFilter(keyFilter) },
      `Writing ${counted(records, "record")}`,
      size,
      deadline,
    );
  }

  /** Resolves when the indexes are not too far behind for a write; undefined when there is nothing to wait for. */
  #indexesTakeMore(records: number, deadline: Deadline): Promise<void> | undefined {
    const indexer = this.#state.indexer;
    return indexer?.admitWrite(records, deadline)?.catch((error: unknown) => {
      this.#state.gate.assertOpen();
      if (!indexer.isStopped) throw error;
    });
  }

  deleteMatching(
    request: DeleteMatching,
    options?: CallOptions,
    keyFilter: KeyFilter | null = null,
  ): Promise<Deleted> {
    return this.#state.gate.pass(async () => {
      checkFields(DeleteMatching, request);
      const deadline = Deadline.of(options);
      const found = await this.#find(request.filter, deadline, keyFilter);
      try {
        const change = await found.encoded({ kind: "delete" });
        const { value } = await this.#writeVersion(
          { kind: "deleteMatching", ...change, ...this.ofKeyFilter(keyFilter) },
          change.batch.length,
          deadline,
        );
        // The writer may have found some that were not there before.
        return { deleted: value as number, ...(value === 0 && told(found)) };
      } finally {
        found.release();
      }
    });
  }

  /** What a shard contributes to a change by filter of its collection. */
  async changeOfShard(filter: unknown, change: RecordChange, deadline: Deadline): Promise<ShardChange> {
    const { readTxn, warnings, encoded, release } = await this.#find(filter, deadline, null);
    try {
      const { batch } = await encoded(change);
      return { warnings, ...conditional(readTxn, batch) };
    } finally {
      release();
    }
  }

  /** What the patch of a record is for its shard. @throws vector_not_found */
  patchOfShard(id: string, patch: string, born: number | undefined): ShardChange {
    return this.#state.read((readTxn, head) => {
      const operation = changeOf(readTxn, head, { kind: "patch", id: utf8(id), patch });
      const batch = operation !== null && "batch" in operation ? operation.batch : emptyBytes;
      return { warnings: [], ...conditional(readTxn, batch, born) };
    });
  }

  updateMatching(
    request: ExactUpdateMatching,
    options?: CallOptions,
    keyFilter: KeyFilter | null = null,
  ): Promise<Updated> {
    return this.#state.gate.pass(async () => {
      checkFields(ExactUpdateMatching, request);
      const deadline = Deadline.of(options);
      const patch = patchOf(request);
      const found = await this.#find(request.filter, deadline, keyFilter);
      try {
        // The writer may find more.
        const records = Math.max(1, found.count);
        const admitted = this.#indexesTakeMore(records, deadline);
        if (admitted) await admitted;
        const bytes = records * (patch.length + 4 * (this.#state.definition.dimension ?? 0) + 256);
        const written = await this.#reserving(
          `Updating ${counted(records, "record")}`,
          { records, bytes },
          async () => {
            const change = await found.encoded({ kind: "patch", patch });
            return this.#writeVersion(
              { kind: "updateMatching", patch, ...change, ...this.ofKeyFilter(keyFilter) },
              change.batch.length,
              deadline,
            );
          },
        );
        return { updated: written.value as number, ...(written.value === 0 && told(found)) };
      } finally {
        found.release();
      }
    });
  }

  patch(
    id: string,
    request: ExactPatch,
    options?: CallOptions,
    keyFilter: KeyFilter | null = null,
  ): Promise<void> {
    return this.#state.gate.pass(async () => {
      checkId(id, "vector_id");
      checkFields(ExactPatch, request);
      const patch = patchOf(request);
      const born = requiredBorn({ if_match: request.if_match ?? null });
      if (born !== undefined && keyFilter !== null) throw versionedByFilter("if_match");
      const size = { records: 1, bytes: patch.length + 4 * (this.#state.definition.dimension ?? 0) + 256 };
      await this.writeRecords(
        {
          kind: "patch",
          id: utf8(id),
          patch,
          ...(born !== undefined && { born }),
          ...this.ofKeyFilter(keyFilter),
        },
        "Changing the metadata of a record",
        size,
        Deadline.of(options),
      );
    });
  }

  /** Finds the records that match, and encodes what becomes of them, for the writer, which makes it exact. */
  async #find(
    filter: unknown,
    { task, atVersion }: Deadline,
    keyFilter: KeyFilter | null,
  ): Promise<FoundRecords> {
    const read = await task.finish(readFilter(filter));
    if (read === null || leavesOf(read).length === 0)
      throw invalidFilter(
        "filter",
        `has no condition, so that every record would match; if you mean that, write {"field": "id", "exists": true}.`,
      );
    const { version, definitions, release } = this.#state.filtered(atVersion);
    try {
      const isTime = timesOf(definitions);
      const times = leavesOf(read).flatMap(({ field }) => (isTime(field.name) ? [field.name] : []));
      const wanted = within(keyFilter, withTimes(read, isTime), isTime) as Filter;
      const { set: found, warnings } = await task.finish(findVisible(version, wanted, keyFilter));
      requireChangeable(found.count);
      const { readTxn, ordinalEnd: end } = version;
      const head = readHead(readTxn);
      const matching = { filter, times, version: head.version, live: head.live, end };
      const rules = keyFilter && new KeyFilterRules(readTxn, keyFilter.toWriter(isTime));
      const encoded = async (change: RecordChange) => {
        const encoding = new MatchingBatch(readTxn, change, rules).encode(found.ordinals(), found.count);
        return { matching, batch: await task.finish(encoding) };
      };
      return { count: found.count, warnings, readTxn, encoded, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  delete(
    id: string,
    options?: CallOptions,
    keyFilter: KeyFilter | null = null,
    condition?: WriteCondition,
  ): Promise<void> {
    return this.#state.gate.pass(async () => {
      checkId(id, "vector_id");
      const batch = encodeDelete(id, condition);
      requireNoBorn(batch, keyFilter);
      const ifVersion = conditionOf(condition, keyFilter);
      const request = { kind: "delete", batch, ...ifVersion, ...this.ofKeyFilter(keyFilter) } as const;
      await this.#writeVersion(request, batch.length, Deadline.of(options));
    });
  }
}

/** The operations of a batch, with the condition that each record is still the one that was read. @param born that must have written it */
function conditional(
  reader: Reader,
  batch: Uint8Array,
  born?: number,
): Pick<ShardChange, "conditions" | "batch" | "records"> {
  const conditions = new ByteWriter();
  let records = 0;
  for (const { id } of readOperations(batch)) {
    writeCondition(conditions, text(id), born ?? bornOf(reader, id.slice()));
    records++;
  }
  return { conditions: conditions.take(), batch, records };
}

/** The condition of a write as its request has it. @throws forbidden: numbers of versions tell of the writes of others */
export function conditionOf(
  condition: WriteCondition | undefined,
  keyFilter: KeyFilter | null,
): { ifVersion?: number } {
  const { if_version: ifVersion } = condition ?? {};
  if (ifVersion == null) return {};
  if (!Number.isSafeInteger(ifVersion) || ifVersion < 0)
    throw fieldError(
      "if_version",
      "the number of a version",
      String(ifVersion).slice(0, 80),
      `if_version must be the number of a version; received ${String(ifVersion).slice(0, 80)}.`,
    );
  if (keyFilter === null) return { ifVersion };
  throw versionedByFilter("if_version");
}

/** @throws forbidden: numbers of versions tell of the writes of others */
export function requireNoBorn(batch: Uint8Array, keyFilter: KeyFilter | null): void {
  if (keyFilter === null) return;
  for (const { born } of readConditions(batch)) if (born > 0) throw versionedByFilter("if_match");
}

const versionedByFilter = (field: string): QuiverError =>
  new QuiverError("forbidden", `A key with a filter cannot depend on a version. Leave out ${field}.`, {
    path: field,
  });

/** The JSON text of a patch. @throws invalid_request */
export function patchOf({ metadata, metadataJson }: ExactPatch): string {
  if (typeof metadata !== "object" || metadata === null || Array.isArray(metadata))
    throw invalid(
      "metadata",
      `is ${kindOf(metadata)}; expected an object, whose keys are merged into the metadata.`,
    );
  const patch = metadataJson ?? JSON.stringify(metadata);
  if (patch.length > limits.metadataBytesMax)
    throw invalid(
      "metadata",
      `has ${patch.length} characters as JSON, at most ${limits.metadataBytesMax} are allowed.`,
    );
  return patch;
}

// ---- How many bytes are written but not yet in a published view?
//
// A search adds a small backlog itself, so small writes are acknowledged at once, and the next write becomes durable while the indexes
// apply this one. With more than `littleBytes` in progress, a write waits until a view contains it: otherwise a search that must see a
// small write would also have to index the large one that became durable right after it.

/** A search indexes this amount itself: a few milliseconds of work, if all of it is text. */
const littleBytes = 64 * 1024;

class UnindexedBytes {
  /** Passed to the writer. */
  #handedBytes = 0;
  /** Durable, by ascending versions. */
  #durable: { version: number; bytes: number }[] = [];

  /** Records that a write is passed to the writer. Call the result with the version of the write, or without one if it failed. */
  begin(bytes: number): (version?: number) => void {
    this.#handedBytes += bytes;
    let isOver = false;
    return (version) => {
      if (isOver) return;
      isOver = true;
      this.#handedBytes -= bytes;
      if (version !== undefined) this.#durable.push({ version, bytes });
    };
  }

  /** @param served version of the current view */
  isLittle(served: number): boolean {
    this.#durable = this.#durable.filter(({ version }) => version > served);
    return this.#durable.reduce((sum, { bytes }) => sum + bytes, this.#handedBytes) <= littleBytes;
  }
}
