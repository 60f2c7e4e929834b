// How much memory do the indexes of a collection take, and may they take more?
//
// Loaded indexes are measured, others estimated. A write that would make the collection too large to be loaded again is
// rejected first.

import { QuiverError } from "@quiverdb/protocol/errors";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { readU32Key } from "../../base/bytes.ts";
import { invariant } from "../../base/invariant.ts";
import { type IndexDefinitions, readIndexDefinitions } from "../../collection/apply.ts";
import type { CollectionDefinition } from "../../collection/definition.ts";
import type { Head } from "../../collection/head.ts";
import { RecordReader } from "../../collection/record.ts";
import { ordinalKey } from "../../collection/tables.ts";
import { readVersion } from "../../collection/versions.ts";
import type { IndexSize, StoredContent } from "../../index/kind.ts";
import { kindNamed } from "../../index/registry.ts";
import { mib } from "../../process/memory.ts";
import { type CheckpointSize, checkpointSize } from "../../runtime/checkpoint-place.ts";
import type { Reader, ReadTransaction } from "../../storage/store.ts";
import { checkpointOf, checkpointPath, type UpdaterDependencies } from "../updaters.ts";
import type { CollectionState } from "./state.ts";

export class CollectionMemory {
  readonly #state: CollectionState;
  readonly #updaterDependencies: UpdaterDependencies;
  /** Estimated sizes of the indexes; undefined until they are needed. */
  #sizes: Map<IndexKind, IndexSize> | undefined;
  /** Upper bound of what writes to the unloaded collection have added since then. */
  #grownBytes = 0;

  /** @param updaterDependencies for estimates */
  constructor(state: CollectionState, updaterDependencies: UpdaterDependencies) {
    this.#state = state;
    this.#updaterDependencies = updaterDependencies;
  }

  get memoryBytes(): number {
    return this.#state.indexer?.memoryBytes ?? 0;
  }

  /** Bytes that the indexes take when they have all records. */
  get expectedBytes(): number {
    const indexer = this.#state.indexer;
    if (indexer === null || !this.#state.isOpen || !this.isLimited) return this.memoryBytes;
    const isBehind = indexer.watermark < this.#state.writtenVersion;
    const end = isBehind ? this.#state.read((_, head) => head.nextOrdinal) : 0;
    let bytes = indexer.identityBytes;
    for (const [kind, size] of this.#knownSizes()) {
      const updater = indexer.updater(kind);
      if (updater === undefined) continue;
      const { index, isBuilt, cursor } = updater;
      const records = isBuilt ? Math.max(0, end - cursor) : 0;
      const more = index.expectedBytes?.(records) ?? index.memoryBytes + records * size.recordBytes;
      bytes += isBuilt ? more : Math.max(more, size.bytes);
    }
    return bytes;
  }

  /** Bytes that loading the collection takes. */
  get bytesToLoad(): number {
    return sumOf(this.#measureSizes());
  }

  #knownSizes(): Map<IndexKind, IndexSize> {
    this.#sizes ??= this.#measureSizes();
    return this.#sizes;
  }

  #measureSizes(): Map<IndexKind, IndexSize> {
    return this.#state.read((readTxn, head) => {
      const definitions = readIndexDefinitions(readTxn);
      const kinds = Object.keys(definitions) as IndexKind[];
      return new Map(kinds.map((kind) => [kind, this.sizeOf(kind, definitions, readTxn, head)]));
    });
  }

  sizeOf(kind: IndexKind, definitions: IndexDefinitions, reader: ReadTransaction, head: Head): IndexSize {
    const { directory, builders, readerSlots } = this.#state.dependencies;
    const sized = {
      reader,
      head,
      collection: this.#state.definition,
      definitions,
      scratchCount: 1 + builders.width + readerSlots,
    };
    const { configuration } = checkpointOf(
      this.#state.definition,
      kind,
      definitions,
      this.#updaterDependencies,
    );
    return sizeToLoad(sized, kind, checkpointSize(checkpointPath(directory, kind), configuration));
  }

  /** Frees up to the given number of bytes of caches. @returns the bytes freed */
  giveUp(bytes: number): number {
    const before = this.expectedBytes;
    this.#state.indexer?.giveUp(bytes);
    this.#state.dependencies.memory.changed();
    return before - this.expectedBytes;
  }

  /**
   * Reserves memory of the process and of the collection.
   * @param indexBytes bytes that indexes will take
   * @param transientBytes bytes that are taken only while the operation runs
   * @returns a function that ends the reservation
   * @throws memory_budget_exceeded
   */
  async admit(what: string, indexBytes: number, transientBytes = 0): Promise<() => void> {
    const { memoryBudgetBytes } = this.#state.definition;
    if (memoryBudgetBytes !== undefined) {
      const tooMuch = this.expectedBytes + indexBytes - memoryBudgetBytes;
      if (tooMuch > 0) this.giveUp(tooMuch);
      const taken = this.expectedBytes;
      if (taken + indexBytes > memoryBudgetBytes)
        throw new QuiverError(
          "memory_budget_exceeded",
          `${what} needs about ${mib(indexBytes)}; the collection's memory budget is ${mib(memoryBudgetBytes)}, of which its indexes ` +
            `take ${mib(taken)}. Nothing was changed. Delete vectors or an index.`,
          {
            scope: "collection",
            needed_bytes: indexBytes,
            budget_bytes: memoryBudgetBytes,
            index_bytes: taken,
          },
        );
    }
    return this.#state.dependencies.memory.admit({ what, indexBytes, transientBytes });
  }

  get isLimited(): boolean {
    return (
      this.#state.dependencies.memory.isLimited || this.#state.definition.memoryBudgetBytes !== undefined
    );
  }

  /** Upper bound of the index memory for the given number of records and encoded bytes. */
  growthBy(records: number, bytes: number): number {
    const { dense, dimension } = this.#state.definition;
    const others = Math.max(0, bytes - (dense ? 4 * (dimension as number) * records : 0));
    let growth = 0;
    for (const [kind, { recordBytes }] of this.#knownSizes())
      growth += kindNamed(kind).growth(recordBytes, records, others);
    return Math.ceil(growth);
  }

  /** Rejects a write after which the indexes of the unloaded collection could not be loaded. @throws memory_budget_exceeded */
  refuseUnloadable(what: string, growth: number): void {
    const ofProcess = this.#state.dependencies.memoryBudgetBytes ?? Number.POSITIVE_INFINITY;
    const ofCollection = this.#state.definition.memoryBudgetBytes ?? Number.POSITIVE_INFINITY;
    const budget = Math.min(ofProcess, ofCollection);
    if (this.#knownSizes().size === 0) return;
    if (sumOf(this.#knownSizes()) + this.#grownBytes + growth > budget) this.forgetSizes();
    const taken = sumOf(this.#knownSizes()) + this.#grownBytes;
    if (taken + growth > budget)
      throw new QuiverError(
        "memory_budget_exceeded",
        `${what} needs about ${mib(growth)}; the collection's indexes, which are not loaded, need ${mib(taken)}, and with more than the ` +
          `memory budget of ${mib(budget)} they could not be loaded again. Nothing was changed. Delete vectors or an index, or ` +
          "give a larger budget.",
        {
          scope: ofCollection < ofProcess ? "collection" : "process",
          needed_bytes: growth,
          budget_bytes: budget,
          index_bytes: taken,
        },
      );
    this.#grownBytes += growth;
  }

  forgetSizes(): void {
    this.#sizes = undefined;
    this.#grownBytes = 0;
  }

  mayTake(bytes: number): boolean {
    const { memoryBudgetBytes = Number.POSITIVE_INFINITY } = this.#state.definition;
    return this.expectedBytes + bytes <= memoryBudgetBytes && this.#state.dependencies.memory.hasSpare(bytes);
  }
}

const sumOf = (sizes: ReadonlyMap<IndexKind, IndexSize>): number =>
  [...sizes.values()].reduce((sum, { bytes }) => sum + bytes, 0);

// ---- How much memory will an index take?
//
// The estimate is made before every load, new index and write, so it must be cheap. A checkpoint states the size (checkpointer.ts). Without
// one, the size of a dense index follows from its definition and the number of records, which are assumed to be distinct. The size of an
// inverted index is extrapolated from a sample: postings in proportion, distinct terms from the number of rare ones. The estimate is for
// an index that has nothing left to build or merge, without caches. index-size.test.ts says how accurate it is.

/** The collection that an index is estimated for. */
type Sized = {
  readonly reader: Reader;
  readonly head: Head;
  readonly collection: CollectionDefinition;
  readonly definitions: IndexDefinitions;
  /** Threads that search or build at a time. */
  readonly scratchCount: number;
};

/** Records of a sample, and ordinal ranges that are probed for records. */
const sampleCount = 1_024;
const placesMax = 256;
const pageOrdinals = 1_024;

/** The size of an index of the collection as it is now, built from its records. */
export function indexSize(sized: Sized, kind: IndexKind): IndexSize {
  const { reader, head, collection, definitions, scratchCount } = sized;
  const definition = definitions[kind];
  invariant(definition !== undefined, `the collection has no ${kind} index`);
  return kindNamed(kind).estimate(collection, definition, {
    counts: head,
    sample: () => sampled(sized),
    densePages: () => pagesOf(reader, head),
    threads: scratchCount,
  });
}

/** The size of an index when it is loaded. @param kept the size of its checkpoint; undefined if it must be built */
function sizeToLoad(sized: Sized, kind: IndexKind, kept: CheckpointSize | undefined): IndexSize {
  if (kept === undefined || kept.records === 0) return indexSize(sized, kind);
  const { reader, head } = sized;
  const recordBytes = kept.bytes / kept.records;
  const count = kindNamed(kind).countOf(head);
  const version = readVersion(reader, kept.version);
  const end = version === undefined ? head.nextOrdinal : (version.firstOrdinal ?? 0) + (version.opened ?? 0);
  // Records since the checkpoint, including those that replace others.
  const since = Math.min(count, Math.max(head.nextOrdinal - end, count - kept.records, 0));
  return { bytes: kept.bytes + since * recordBytes, recordBytes };
}

/** Estimated number of blocks of 1,024 ordinals that have a vector. */
function pagesOf(reader: Reader, { nextOrdinal }: Head): number {
  const all = Math.ceil(nextOrdinal / pageOrdinals);
  const looked = Math.min(all, placesMax);
  let used = 0;
  for (let i = 0; i < looked; i++) {
    const page = Math.floor((i * all) / looked);
    const range = {
      start: ordinalKey(page * pageOrdinals),
      end: ordinalKey((page + 1) * pageOrdinals),
      limit: 1,
    };
    for (const _ of reader.keys("dense", range)) used++;
  }
  return looked === 0 ? 0 : Math.ceil((all * used) / looked);
}

/** An even sample of the records. */
function* sampled({ reader, head }: Sized): Generator<StoredContent> {
  const step = Math.max(1, head.nextOrdinal / sampleCount);
  let last = -1;
  let count = 0;
  for (let at = 0; at < head.nextOrdinal && count < sampleCount; at += step)
    for (const [key, stored] of reader.entries("records", { start: ordinalKey(Math.floor(at)), limit: 1 })) {
      const ordinal = readU32Key(key);
      if (ordinal === last) continue;
      last = ordinal;
      count++;
      yield new RecordReader(stored);
    }
}
