// What must the rest of the engine know about metadata indexes?
//
// A collection has one for each declared field, so the kind's object is made for a field.

import { QuiverError } from "@quiverdb/protocol/errors";
import { kindOf } from "@quiverdb/protocol/kind-of";
import { limits } from "@quiverdb/protocol/limits";
import {
  type MetadataDefinition,
  metadataPrefix,
  metadataTypes,
} from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../../base/invariant.ts";
import { sharedArray } from "../../base/shared-memory.ts";
import type { FieldType } from "../../filter/condition.ts";
import { type Field, fieldNamed } from "../../metadata/field.ts";
import type { CheckpointAdapter } from "../checkpoint-adapter.ts";
import { metadataIndexName, ValueFinder } from "../field-index.ts";
import { mix } from "../inverted/check.ts";
import { sizeBy, TermSample } from "../inverted/memory.ts";
import type { IndexSize, Kind, Population, PreparedRecords, StoredContent } from "../kind.ts";
import { hashOf } from "../text/dictionary-reader.ts";
import { type KeywordState, KeywordValues } from "./keyword-values.ts";
import { fixedBytes, MetadataIndex, type TypedValues } from "./metadata-index.ts";
import { type NumberState, NumberValues } from "./number-values.ts";
import { BooleanValues, GrowingBitmap } from "./value-sets.ts";

/** Changed when a checkpoint of an earlier version of Quiver has other contents. */
const metadataFormat = 2;

type MetadataKind = Kind<MetadataDefinition, MetadataIndex, MetadataState, PreparedRecords, MetadataIndex>;

/** @param name of an index */
export function metadataKind(name: string): MetadataKind {
  const field = fieldOf(name.slice(metadataPrefix.length));
  const finderOf = ({ type }: Pick<MetadataDefinition, "type">) => new ValueFinder(field, type);
  return {
    name: metadataIndexName(field),
    define: (_collection, given) => ({
      field: field.name,
      type: checkType((given as MetadataDefinition).type),
    }),
    table: "records",
    countOf: ({ live }) => live,
    blueprint: (_collection, { type }) => ({
      make: () => new MetadataIndex(field, type),
      checkpoint: metadataCheckpoints(field, type),
      deciding: { metadataFormat, field: field.name, type },
    }),
    add: (index, ordinal, _bytes, content) => index.add(ordinal, content().metadataBytes),
    estimate: (_collection, { type }, population) => metadataIndexSize(field, type, population),
    search() {
      invariant(false, "a query has a leg for a metadata index");
    },
    growth: (_recordBytes, _records, otherBytes) => 2 * otherBytes,
    status: () => ({ served_by: "bitmaps" }),
    postings: (index) => ({
      *walk(add) {
        let count = 0;
        for (const [value, ordinal] of index.typed.values.entries()) {
          if (index.present.has(ordinal)) add(ordinal, valueHash(value));
          if (++count % pairsPerStep === 0) yield;
        }
        for (const ordinal of index.others.ordinals()) add(ordinal, otherHash);
        return true;
      },
      hashesOf: (record) => hashesOf(finderOf({ type: index.type }), record),
    }),
  };
}

/** Pairs that are compared at a step. */
const pairsPerStep = 1_024;
const otherHash = mix(0, 1);

function* hashesOf(finder: ValueFinder, { metadataBytes }: StoredContent): Generator<number> {
  const { values, hasOther } = finder.find(metadataBytes);
  for (const value of new Set(values)) yield valueHash(value);
  if (hasOther) yield otherHash;
}

const valueHash = (value: string | number | boolean): number =>
  mix(hashOf(String(value === 0 ? 0 : value)), 2 + ["string", "number", "boolean"].indexOf(typeof value));

function checkType(type: unknown): MetadataDefinition["type"] {
  const known = metadataTypes.find((name) => name === type);
  if (known !== undefined) return known;
  throw new QuiverError(
    "invalid_request",
    `type is ${typeof type === "string" ? JSON.stringify(type.slice(0, 40)) : kindOf(type)}; expected one of ${metadataTypes.join(", ")}.`,
    { path: "type" },
  );
}

/** The field that an index can be of. @throws invalid_request */
function fieldOf(name: string): Field {
  const refuse = (problem: string) =>
    new QuiverError("invalid_request", `field ${problem}`, { path: "field" });
  if (name.length > limits.metadataIndexFieldMax)
    throw refuse(`has ${name.length} characters; expected ${limits.metadataIndexFieldMax} at most.`);
  const field = fieldNamed(name);
  if (field === null)
    throw refuse("ends with a backslash; a backslash makes the next character part of a key.");
  if (field.record !== undefined)
    throw refuse(
      `'${name}' needs no index: ids, and prefixes of 'id', are looked up in the records' own tables. Write '\\${name}' for the metadata key of this name.`,
    );
  return field;
}

// The size of an index is estimated by the layout of its values, from a sample of the records: so many values each, and of strings so many different ones. Columns are partly
// unused after they have grown, so the estimate is within about a third.

/** Of columns that double when they are full, and of those that grow by a quarter. */
const doubling = 1.4;
const growing = 1.1;

/** Of a bitmap, of the records held, of those with a value and of one more. */
const bitsPerRecord = 1 / 8;
const bitmapsOfIndex = 3;

/** A number and its ordinal; and at most so many bitmaps, one for so many pairs. */
const numberPairBytes = 12;
const numberBitmapsMax = 64;
const pairsPerBitmap = 400;

/** An ordinal and the entry before it; and of a string: newest entry, count, hash, begin, length and three slots. */
const keywordPairBytes = 8;
const stringBytes = 8 * doubling + (10 + 12) * growing;
/** A string that so many records have, or more, has a bitmap. */
const frequentShare = 1 / 64;

function metadataIndexSize(field: Field, type: FieldType, { counts, sample }: Population): IndexSize {
  const finder = new ValueFinder(field, type);
  const values = new TermSample();
  for (const { metadataBytes } of sample())
    values.add(finder.find(metadataBytes).values.map((value) => String(value)));
  const bytesOf = (records: number): number => {
    const bitmap = bitsPerRecord * growing * records;
    const pairs = (values.postings * records) / Math.max(1, values.records);
    const ofType = type === "keyword" ? keywordBytes : type === "boolean" ? booleanBytes : numberBytes;
    return fixedBytes + bitmapsOfIndex * bitmap + ofType(values, records, pairs, bitmap);
  };
  return sizeBy(counts.live, bytesOf);
}

/** @param bitmap bytes of one */
const booleanBytes = (_values: TermSample, _records: number, _pairs: number, bitmap: number): number =>
  2 * bitmap;

const numberBytes = (_values: TermSample, _records: number, pairs: number, bitmap: number): number =>
  numberPairBytes * doubling * pairs + Math.min(numberBitmapsMax, pairs / pairsPerBitmap) * bitmap;

function keywordBytes(values: TermSample, records: number, pairs: number, bitmap: number): number {
  const strings = values.termsOf(records);
  const characters = values.charactersOf(records) + strings;
  return (
    keywordPairBytes * doubling * pairs +
    stringBytes * strings +
    2 * growing * characters +
    values.sharedBy(frequentShare) * bitmap
  );
}

// ---- What does a checkpoint store of a metadata index?
//
// Copies of the columns of its values and of the bitmaps, so that the index stays in use. A record that is closed is left out when the
// checkpoint is restored: nothing would remove it later.

type BitmapState = { readonly firstWord: number; readonly count: number; readonly words: number };

export type MetadataState = {
  readonly end: number;
  readonly held: BitmapState;
  readonly present: BitmapState;
  readonly others: BitmapState;
  readonly retired: readonly number[];
  readonly leftOver: number;
  readonly values:
    | { readonly type: "keyword"; readonly state: KeywordState }
    | { readonly type: "number" | "datetime"; readonly state: NumberState }
    | { readonly type: "boolean"; readonly yes: BitmapState; readonly no: BitmapState };
};

type Saved<State> = { readonly state: State; readonly images: readonly Uint8Array[] };

function saveBitmap(bitmap: GrowingBitmap): Saved<BitmapState> {
  const copy = sharedArray(Uint32Array, bitmap.words.length);
  copy.set(bitmap.words);
  const { firstWord, count } = bitmap;
  return { state: { firstWord, count, words: copy.length }, images: [new Uint8Array(copy.buffer)] };
}

const emptyWords = ({ words }: BitmapState): Uint8Array =>
  new Uint8Array(sharedArray(Uint32Array, words).buffer);

const restoreBitmap = ({ firstWord, count }: BitmapState, image: Uint8Array): GrowingBitmap =>
  GrowingBitmap.restored(new Uint32Array(image.buffer), firstWord, count);

function saveValues(typed: TypedValues): Saved<MetadataState["values"]> {
  if (typed.type === "keyword") {
    const { state, images } = typed.values.save();
    return { state: { type: typed.type, state }, images };
  }
  if (typed.type === "boolean") {
    const [yes, no] = [saveBitmap(typed.values.yes), saveBitmap(typed.values.no)];
    return {
      state: { type: typed.type, yes: yes.state, no: no.state },
      images: [...yes.images, ...no.images],
    };
  }
  const { state, columns } = typed.values.save();
  return { state: { type: typed.type, state }, images: columns.map(({ buffer }) => new Uint8Array(buffer)) };
}

function imagesFor(values: MetadataState["values"]): Uint8Array[] {
  if (values.type === "keyword") return KeywordValues.imagesFor(values.state);
  if (values.type === "boolean") return [emptyWords(values.yes), emptyWords(values.no)];
  const pairs = values.state.buckets.reduce((sum, { length }) => sum + length, 0);
  return [sharedArray(Float64Array, pairs), sharedArray(Uint32Array, pairs)].map(
    ({ buffer }) => new Uint8Array(buffer),
  );
}

function restoreValues(
  values: MetadataState["values"],
  images: readonly Uint8Array[],
  records: number,
): TypedValues {
  if (values.type === "keyword")
    return { type: values.type, values: KeywordValues.restored(values.state, images, records) };
  if (values.type === "boolean") {
    const [yes, no] = [restoreBitmap(values.yes, images[0]), restoreBitmap(values.no, images[1])];
    return { type: values.type, values: new BooleanValues(yes, no) };
  }
  const columns = [new Float64Array(images[0].buffer), new Uint32Array(images[1].buffer)] as const;
  return { type: values.type, values: NumberValues.restored(values.state, columns) };
}

function metadataCheckpoints(field: Field, type: FieldType): CheckpointAdapter<MetadataIndex, MetadataState> {
  return {
    changes: (index) => index.changes,
    hasNews: () => false,
    isIdle: (index) => index.isIdle,
    async save(index, write) {
      const { changes } = index;
      const [held, present, others] = [index.held, index.present, index.others].map(saveBitmap);
      const values = saveValues(index.typed);
      const state: MetadataState = {
        end: index.end,
        held: held.state,
        present: present.state,
        others: others.state,
        retired: index.retired,
        leftOver: index.leftOver,
        values: values.state,
      };
      const images = [held, present, others, values].flatMap((saved) => saved.images);
      if (await write(state, images)) index.changes -= changes;
    },
    endOf: ({ end }) => end,
    async restored(state, load) {
      const { end, held, present, others, values, retired, leftOver } = state;
      const images = [emptyWords(held), emptyWords(present), emptyWords(others), ...imagesFor(values)];
      await load(images);
      const index = new MetadataIndex(field, type, {
        held: restoreBitmap(held, images[0]),
        present: restoreBitmap(present, images[1]),
        others: restoreBitmap(others, images[2]),
        values: restoreValues(values, images.slice(3), present.count),
        leftOver,
        end,
      });
      for (const ordinal of retired) index.remove(ordinal);
      return index;
    },
  };
}
