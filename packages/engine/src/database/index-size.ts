// How much memory will an index take, before it is there?
//
// Asked before a load, a new index and a write, so it must be cheap. What was kept on disk says it itself (keeper.ts). Else a dense index
// follows from its definition and the number of its records, which are taken to be different, and an inverted one from a sample of
// the records: postings in proportion, different terms as many as those that few of it have foretell. What is meant is the index with nothing left to
// build or merge, without caches. How near that is: index-size.test.ts.

import { longList, runRecordsMax } from "@quiver/kernels/postings";
import type { DenseIndex, IndexKind, TextIndex } from "@quiver/protocol/shapes/index-definition";
import { readU32Key } from "../base/bytes.ts";
import type { IndexDefinitions } from "../collection/apply.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import type { Head } from "../collection/head.ts";
import { RecordReader } from "../collection/record.ts";
import { ordinalKey } from "../collection/tables.ts";
import { readVersion } from "../collection/versions.ts";
import { type DenseShape, denseBytes } from "../index/hnsw/memory.ts";
import { postingBytes } from "../index/postings/memory.ts";
import { textBytes } from "../index/text/memory.ts";
import type { KeptSize } from "../indexing/keeper.ts";
import { wordsOf } from "../runtime/stored-words.ts";
import type { Reader } from "../storage/store.ts";
import { createAnalyzer } from "../text/analyzer.ts";

/** Bytes that an index takes, and about what each further record will. */
export type IndexSize = { readonly bytes: number; readonly recordBytes: number };

/** What of a collection is asked. */
export type Sized = {
  readonly reader: Reader;
  readonly head: Head;
  readonly collection: CollectionDefinition;
  readonly definitions: IndexDefinitions;
  /** Threads that search or build at a time. */
  readonly areas: number;
};

/** Records that are looked at, and places where it is looked whether there are any. */
const sampleCount = 1_024;
const placesMax = 256;
const pageOrdinals = 1_024;

/** The size of an index of the collection as it is now, built from its records. */
export function indexSize(sized: Sized, kind: IndexKind): IndexSize {
  if (kind === "dense") return denseSize(sized);
  return kind === "sparse" ? sparseSize(sized) : textSize(sized);
}

/** The size of an index when it is loaded. @param kept as it was kept on disk; undefined: it has to be built */
export function sizeToLoad(sized: Sized, kind: IndexKind, kept: KeptSize | undefined): IndexSize {
  if (kept === undefined || kept.records === 0) return indexSize(sized, kind);
  const { reader, head } = sized;
  const recordBytes = kept.bytes / kept.records;
  const count = { dense: head.dense, sparse: head.sparse, "tf-idf": head.text }[kind];
  const version = readVersion(reader, kept.version);
  const end = version === undefined ? head.nextOrdinal : (version.firstOrdinal ?? 0) + (version.opened ?? 0);
  // Records that came since, in the place of others too, which leave when they are there.
  const since = Math.min(count, Math.max(head.nextOrdinal - end, count - kept.records, 0));
  return { bytes: kept.bytes + since * recordBytes, recordBytes };
}

function denseSize({ reader, head, collection, definitions, areas }: Sized): IndexSize {
  const { quantization, index } = definitions.dense as DenseIndex;
  const { properties } = index;
  const shape: DenseShape = {
    dimension: collection.dimension as number,
    dataType: quantization.type === "auto" ? "auto" : (quantization.properties.data_type ?? "auto"),
    m: properties.neighbors_count ?? undefined,
    m0: properties.level_0_neighbors_count ?? undefined,
    levelsMax: properties.num_layers ?? undefined,
    sampleCount: quantization.properties.sample_threshold ?? undefined,
    areas,
  };
  const bytes = denseBytes(shape, { vectors: head.dense, pages: pagesOf(reader, head) });
  // Tables double: over a doubling each record has its share.
  const many = Math.max(head.dense, 4_096);
  const recordBytes =
    (denseBytes(shape, { vectors: 2 * many }) - denseBytes(shape, { vectors: many })) / many;
  return { bytes: head.dense === 0 ? 0 : bytes, recordBytes };
}

/** Stretches of 1,024 ordinals that have a vector, about. */
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

/** Terms of sampled records, and how many of the records have each. */
class TermSample {
  records = 0;
  postings = 0;
  places = 0;
  readonly #having = new Map<string | number, number>();

  add(terms: readonly (string | number)[]): void {
    this.records++;
    this.places += terms.length;
    for (const term of new Set(terms)) {
      this.postings++;
      this.#having.set(term, (this.#having.get(term) ?? 0) + 1);
    }
  }

  /** Characters of the different terms of so many records. */
  charactersOf(records: number): number {
    let characters = 0;
    for (const term of this.#having.keys()) characters += String(term).length;
    return (characters * this.termsOf(records)) / Math.max(1, this.#having.size);
  }

  /** Different terms of so many records, by those that few of the sampled ones have (Chao et al., Ecological Monographs 84(1), 2014). */
  termsOf(records: number): number {
    const { size } = this.#having;
    if (records <= this.records || size === 0) return size;
    let [once, twice] = [0, 0];
    for (const having of this.#having.values())
      if (having === 1) once++;
      else if (having === 2) twice++;
    if (once === 0) return size;
    const unseen = twice > 0 ? once ** 2 / (2 * twice) : (once * (once - 1)) / 2;
    const share = once / (this.records * unseen + once);
    return size + unseen * (1 - (1 - share) ** (records - this.records));
  }

  /** Terms that 512 of so many records have. */
  longListsOf(records: number): number {
    let count = 0;
    for (const having of this.#having.values()) if ((having * records) / this.records >= longList) count++;
    return count;
  }
}

function sampled(
  { reader, head }: Sized,
  termsOf: (stored: Uint8Array) => readonly (string | number)[] | undefined,
): TermSample {
  const sample = new TermSample();
  const step = Math.max(1, head.nextOrdinal / sampleCount);
  let last = -1;
  for (let at = 0; at < head.nextOrdinal && sample.records < sampleCount; at += step)
    for (const [key, stored] of reader.entries("records", { start: ordinalKey(Math.floor(at)), limit: 1 })) {
      const ordinal = readU32Key(key);
      if (ordinal === last) continue;
      last = ordinal;
      const terms = termsOf(stored);
      if (terms !== undefined) sample.add(terms);
    }
  return sample;
}

/** @param bytesOf of an index of so many records like those of the sample */
function sizeBy(count: number, bytesOf: (records: number) => number): IndexSize {
  const many = Math.max(count, 4_096);
  return {
    bytes: count === 0 ? 0 : bytesOf(count),
    recordBytes: Math.max(0, bytesOf(2 * many) - bytesOf(many)) / many,
  };
}

function countsOf(sample: TermSample, records: number) {
  const share = records / Math.max(1, sample.records);
  const inRun = Math.min(records, runRecordsMax);
  return {
    records,
    postings: share * sample.postings,
    terms: sample.termsOf(inRun),
    longLists: sample.longListsOf(inRun),
  };
}

function sparseSize(sized: Sized): IndexSize {
  const sample = sampled(sized, (stored) => {
    const { sparse } = new RecordReader(stored);
    return sparse ? [...sparse.indices] : undefined;
  });
  return sizeBy(sized.head.sparse, (records) => postingBytes(false, countsOf(sample, records)));
}

function textSize(sized: Sized): IndexSize {
  const { language, stop_words: stopWords, positions } = sized.definitions["tf-idf"] as TextIndex;
  const analyzer = createAnalyzer(language ?? "english", stopWords);
  const forms = new TermSample();
  const sample = sampled(sized, (stored) => {
    const words = wordsOf(stored);
    if (words === null) return undefined;
    if (analyzer.hasForms)
      forms.add(words.map((word) => analyzer.of(word).form).filter((form) => form !== ""));
    return analyzer.terms(words);
  });
  return sizeBy(sized.head.text, (records) =>
    textBytes({
      ...countsOf(sample, records),
      ...textCounts(sample, records, positions ?? false),
      forms: analyzer.hasForms ? formCounts(forms, records) : undefined,
    }),
  );
}

function textCounts(sample: TermSample, records: number, hasPositions: boolean) {
  return {
    allTerms: sample.termsOf(records),
    characters: sample.charactersOf(records),
    places: hasPositions ? (sample.places * records) / Math.max(1, sample.records) : 0,
  };
}

function formCounts(forms: TermSample, records: number) {
  return {
    all: forms.termsOf(records),
    characters: forms.charactersOf(records),
    postings: (forms.postings * records) / Math.max(1, forms.records),
  };
}
