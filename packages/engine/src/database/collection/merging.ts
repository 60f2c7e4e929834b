// How do the changes of a copy come back into its original?
//
// A copy has the tag `origin` at the version that it began with, so that what it had then is kept. Each record that it has changed since is
// compared with the original's: three states, of which the first two are in the copy.
//
//   base     as both had it            changed by the copy alone: the change is taken
//   theirs   as the copy has it        the original has it as the copy does: nothing to do
//   ours     as the original has it    otherwise both have changed it: a conflict
//
// All changes are one version of the original. They are found and encoded on one version of each. Each is written on the condition that the
// original's record is still the one that it was compared with (record.ts); otherwise the merge begins again.

import { counted } from "@quiverdb/protocol/counted";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { checkFields } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import { type Conflict, MergeCollection, type Merged } from "@quiverdb/protocol/shapes/collection";
import {
  ByteWriter,
  compareBytes,
  compareText,
  concatenated,
  emptyBytes,
  readU32Key,
  toHex,
  utf8,
} from "../../base/bytes.ts";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import { fingerprint } from "../../collection/accept.ts";
import { answerTo } from "../../collection/answers.ts";
import { type CollectionDefinition, collectionOf, nameOf } from "../../collection/definition.ts";
import { readHead } from "../../collection/head.ts";
import { denseAt, originTag, readTag, type StoredAt, storedAt } from "../../collection/history.ts";
import { operationBytes, RecordReader, writeCondition } from "../../collection/record.ts";
import { readVersion, type VersionEntry, versionNumbered } from "../../collection/versions.ts";
import type { ReadTransaction } from "../../storage/store.ts";
import { changesBetween } from "./earlier-versions.ts";
import { boundaryOf } from "./exact-versions.ts";
import type { CollectionState } from "./state.ts";
import type { Writes } from "./writes.ts";

/** Changes that are compared in one step. */
const comparedPerStep = 32;
/** How long a shard waits for its copy. */
const arrivalMs = 10_000;
/** How often a merge begins again while others write the same records. */
const attemptsMax = 10;

type Counts = Pick<Merged, "added" | "changed" | "removed">;
type Found = {
  readonly conditions: Uint8Array;
  readonly batch: Uint8Array;
  readonly counts: Counts;
  readonly conflicts: Conflict[];
};

/** What is answered of a merge, beside its version. */
export type ToldMerge = Omit<Merged, "version">;

export class Merging {
  readonly #state: CollectionState;
  readonly #writes: Writes;

  constructor(state: CollectionState, writes: Writes) {
    this.#state = state;
    this.#writes = writes;
  }

  /**
   * What the copy of a shard has changed, at a version of each that all shards are read at.
   * @param copyId its internal id
   * @throws not_ready with `copy_boundary`, where that version of the copy can no longer be read (exact-versions.ts)
   */
  async ofShard(
    copyId: string,
    copyVersion: number,
    request: MergeCollection,
    deadline: Deadline,
  ): Promise<Found> {
    const find = () => this.#state.dependencies.stateOf(copyId) as CollectionState | undefined;
    // One that another node has just made arrives soon.
    const until = performance.now() + arrivalMs;
    while (find() === undefined && performance.now() < until) {
      deadline.check();
      await deadline.race(new Promise((resolve) => setTimeout(resolve, 100)));
    }
    const copy = find();
    if (copy === undefined)
      throw new QuiverError(
        "not_ready",
        `The copy of the shard '${this.#state.name}' is not yet at the node that was asked, which has the shard. Send the request again.`,
        { shard: this.#state.name, retry_after_seconds: 1 },
      );
    const compare = async () => {
      const [theirs, ours] = [copy.served(copyVersion), this.#state.served(deadline.atVersion)];
      try {
        return await this.#compare(copy, theirs.readTxn, ours.readTxn, request, deadline);
      } finally {
        theirs.release();
        ours.release();
      }
    };
    return copy.gate.pass(() =>
      copy.exact.use(copyVersion, deadline, compare).catch((error: unknown) => {
        const boundary = boundaryOf(error);
        if (boundary === undefined) throw error;
        const details = { copy_boundary: boundary, retry_after_seconds: 1 };
        throw new QuiverError("not_ready", (error as Error).message, details);
      }),
    );
  }

  /** @param copy of this collection */
  merge(copy: CollectionState, request: MergeCollection, options?: CallOptions): Promise<Merged> {
    return this.#state.gate.pass(() =>
      copy.gate.pass(async () => {
        checkFields(MergeCollection, request);
        const deadline = Deadline.of(options);
        const from = `${copy.entry.internalId} ${request.on_conflict ?? ""}`;
        const earlier = this.#answerTo(from, deadline);
        if (earlier !== undefined) return this.#answer(earlier);
        for (let attempt = 1; ; attempt++)
          try {
            return await this.#attempt(copy, from, request, deadline);
          } catch (error) {
            if (!isQuiverError(error, "record_changed") || attempt === attemptsMax) throw error;
          }
      }),
    );
  }

  #answerTo(from: string, { idempotencyKey: key }: Deadline) {
    if (key === undefined) return undefined;
    const once = { key, fingerprint: fingerprint({ kind: "change", batch: emptyBytes, from }) };
    return this.#state.read((readTxn) => answerTo(readTxn, once, this.#state.dependencies.clock()));
  }

  #answer({ version, value }: { version: number; value: unknown }): Merged {
    const made = this.#state.read((readTxn) => versionNumbered(readTxn, version));
    return { version: made, ...(value as Omit<Merged, "version">) };
  }

  async #attempt(
    copy: CollectionState,
    from: string,
    request: MergeCollection,
    deadline: Deadline,
  ): Promise<Merged> {
    const [theirs, ours] = [copy.store.beginRead(), this.#state.store.beginRead()];
    const comparing = this.#compare(copy, theirs, ours, request, deadline);
    const found = await comparing.finally(() => {
      theirs.release();
      ours.release();
    });
    const { told, records } = toldOf([found], request);
    const batch = concatenated([found.conditions, found.batch]);
    if (records === 0 && deadline.idempotencyKey === undefined)
      return this.#answer({ version: this.#state.read((readTxn) => readHead(readTxn).version), value: told });
    const { version } = await this.#writes.writeRecords(
      { kind: "change", batch, from, told },
      `Merging ${counted(records, "record")}`,
      { records, bytes: batch.length },
      deadline,
    );
    return this.#answer({ version, value: told });
  }

  async #compare(
    copy: CollectionState,
    theirs: ReadTransaction,
    ours: ReadTransaction,
    request: MergeCollection,
    deadline: Deadline,
  ): Promise<Found> {
    return deadline.task.finish(this.#find(copy, theirs, ours, request.on_conflict ?? null));
  }

  /** Compares what the copy has changed, and encodes what is to be done here. */
  *#find(
    copy: CollectionState,
    theirs: ReadTransaction,
    ours: ReadTransaction,
    onConflict: MergeCollection["on_conflict"],
  ): Steps<Found> {
    const end = this.#sharedEnd(copy, theirs, ours);
    const { version } = readHead(theirs);
    const current = readVersion(theirs, version);
    const base = originOf(theirs, copy.name);
    invariant(current !== undefined, `version ${version} is not in the log`);
    const changes = yield* changesBetween(theirs, base, current);
    requireMergeable(changes.length);
    const [conditions, operations] = [new ByteWriter(), new ByteWriter()];
    const counts = { added: 0, changed: 0, removed: 0 };
    const conflicts: Conflict[] = [];
    for (const [i, change] of changes.entries()) {
      if (i % comparedPerStep === comparedPerStep - 1) yield;
      const id = utf8(change.id);
      const key = ours.get("ids", id)?.slice();
      const own = key === undefined ? undefined : storedAt(ours, readU32Key(key));
      const their = change.ordinal === undefined ? undefined : storedAt(theirs, change.ordinal);
      if (isSame(ours, own, theirs, their)) continue;
      const isAdded = change.before === undefined;
      const before = () => (change.before === undefined ? undefined : storedAt(theirs, change.before));
      const isUntouched =
        own === undefined ? isAdded : own.ordinal < end || isSame(ours, own, theirs, before());
      if (!isUntouched) {
        const did = own === undefined ? "removed" : isAdded ? "added" : "changed";
        conflicts.push({ id: change.id, ours: did, theirs: change.op });
        if (onConflict !== "theirs") continue;
      }
      counts[change.op]++;
      writeCondition(conditions, change.id, own === undefined ? 0 : new RecordReader(own.record).born);
      operations.bytes(
        their === undefined
          ? operationBytes({ kind: "delete", id })
          : operationBytes({ kind: "upsert", id, ...contentOf(theirs, their) }),
      );
      requireMergeableBytes(operations.length);
    }
    return { conditions: conditions.take(), batch: operations.take(), counts, conflicts };
  }

  /** The first ordinal that only one of the two has given. @throws invalid_request: it is no copy of this collection */
  #sharedEnd(copy: CollectionState, theirs: ReadTransaction, ours: ReadTransaction): number {
    const { origin } = copy.definition;
    const base = origin && readTag(theirs, originTag);
    const own = origin && readVersion(ours, origin.version);
    const isOrigin =
      origin !== undefined &&
      (origin.internalId === this.#state.entry.internalId ||
        (own !== undefined && toHex(own.hash) === origin.hash));
    if (isOrigin) return base === undefined ? 0 : base.firstOrdinal + base.opened;
    throw notACopy(collectionOf(copy.definition), nameOf(this.#state.definition));
  }
}

/** The version that a copy began with. @param name of the copy @throws version_gone */
export function originOf(theirs: ReadTransaction, name: string): VersionEntry {
  const base = readTag(theirs, originTag);
  if (base !== undefined) return base;
  throw new QuiverError(
    "version_gone",
    `The collection '${name}' no longer has the tag '${originTag}' at the version that it began with, so what it has changed is not known. Make another copy.`,
    { collection: name, tag: originTag },
  );
}

export const notACopy = ({ name, origin }: CollectionDefinition, of: string): QuiverError =>
  new QuiverError(
    "invalid_request",
    `from: the collection '${name}' is no copy of '${of}'${origin ? `, but of '${origin.name}'` : ""}; only a copy can be merged into its original.`,
    { path: "from", ...(origin && { origin: origin.name }) },
  );

const contentOf = (reader: ReadTransaction, stored: StoredAt) => {
  const { content, contents } = new RecordReader(stored.record);
  return { content, dense: contents.dense ? denseAt(reader, stored).slice() : emptyBytes };
};

/** Whether both are absent, or have the same content. */
function isSame(
  ours: ReadTransaction,
  own: StoredAt | undefined,
  theirs: ReadTransaction,
  their: StoredAt | undefined,
): boolean {
  if (own === undefined || their === undefined) return own === their;
  const [a, b] = [own, their].map(({ record }) => new RecordReader(record).content);
  // Most differ here, and their vectors need not be read.
  if (compareBytes(a, b) !== 0) return false;
  return compareBytes(contentOf(ours, own).dense, contentOf(theirs, their).dense) === 0;
}

/** What is answered of a merge, and how many records it changes. @throws merge_conflict */
export function toldOf(
  found: readonly Pick<Found, "counts" | "conflicts">[],
  request: MergeCollection,
): { told: ToldMerge; records: number } {
  const conflicts = found.flatMap((each) => each.conflicts).sort((a, b) => compareText(a.id, b.id));
  if (conflicts.length > 0 && request.on_conflict == null) throw mergeConflict(conflicts);
  const sum = (of: keyof Counts) => found.reduce((all, { counts }) => all + counts[of], 0);
  const counts = { added: sum("added"), changed: sum("changed"), removed: sum("removed") };
  return {
    told: { ...counts, conflicts: conflicts.slice(0, limits.conflictsShown) },
    records: counts.added + counts.changed + counts.removed,
  };
}

function mergeConflict(conflicts: readonly Conflict[]): QuiverError {
  const [{ id, ours, theirs }] = conflicts;
  const count = counted(conflicts.length, "record");
  return new QuiverError(
    "merge_conflict",
    `${count} changed on both sides, such as '${id.slice(0, 80)}', which is ${ours} here and ${theirs} in the copy; nothing was changed. Set on_conflict to "ours" or "theirs", or change the records and merge again.`,
    { conflicts: conflicts.slice(0, limits.conflictsShown), conflict_count: conflicts.length },
  );
}

function requireMergeable(records: number): void {
  if (records <= limits.changeRecordsMax) return;
  throw new QuiverError(
    "invalid_request",
    `The copy has changed ${records} records, at most ${limits.changeRecordsMax} are merged as one version; nothing was changed. Export the copy and import it instead.`,
    { path: "from", records, limit_records: limits.changeRecordsMax },
  );
}

function requireMergeableBytes(bytes: number): void {
  if (bytes <= limits.changeBytesMax) return;
  throw new QuiverError(
    "invalid_request",
    `What the copy has changed has more than ${limits.changeBytesMax} bytes, the most that are merged as one version; nothing was changed. Export the copy and import it instead.`,
    { path: "from", limit_bytes: limits.changeBytesMax },
  );
}
