// How much memory will an index take?
//
// The estimate is made before every load, new index and write, so it must be cheap. A checkpoint states the size (checkpointer.ts). Without
// one, the size of a dense index follows from its definition and the number of records, which are assumed to be distinct. The size of an
// inverted index is extrapolated from a sample: postings in proportion, distinct terms from the number of rare ones. The estimate is for
// an index that has nothing left to build or merge, without caches. index-size.test.ts says how accurate it is.

import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { readU32Key } from "../base/bytes.ts";
import { invariant } from "../base/invariant.ts";
import type { IndexDefinitions } from "../collection/apply.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import type { Head } from "../collection/head.ts";
import { RecordReader } from "../collection/record-reader.ts";
import { ordinalKey } from "../collection/tables.ts";
import { readVersion } from "../collection/versions.ts";
import type { IndexSize, StoredContent } from "../index/kind.ts";
import { kindNamed } from "../index/registry.ts";
import type { CheckpointSize } from "../runtime/checkpoint-place.ts";
import type { Reader } from "../storage/store.ts";

/** The collection that an index is estimated for. */
export type Sized = {
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
export function sizeToLoad(sized: Sized, kind: IndexKind, kept: CheckpointSize | undefined): IndexSize {
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
