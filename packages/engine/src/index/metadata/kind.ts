// What must the rest of the engine know about metadata indexes?
//
// A collection has one for each declared field, so the kind's object is made for a field.

import { QuiverError } from "@quiverdb/protocol/errors";
import { kindOf } from "@quiverdb/protocol/kind-of";
import { limits } from "@quiverdb/protocol/limits";
import {
  type IndexKind,
  isMetadataIndex,
  type MetadataDefinition,
  type MetadataIndexName,
  metadataPrefix,
  metadataTypes,
} from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../../base/invariant.ts";
import type { FieldType } from "../../filter/condition.ts";
import { type Field, fieldNamed } from "../../metadata/field.ts";
import type { Index } from "../contract.ts";
import type { IndexSize, Kind, Population, PreparedRecords, StoredContent } from "../kind.ts";
import { mix } from "../postings/posting-hash.ts";
import { sizeBy, TermSample } from "../postings/term-sample.ts";
import { hashOf } from "../text/dictionary-reader.ts";
import { type MetadataState, metadataCheckpoints } from "./checkpoints.ts";
import { fixedBytes, MetadataIndex, ValueFinder } from "./metadata-index.ts";

/** Changed when a checkpoint of an earlier version of Quiver has other contents. */
const metadataFormat = 2;

export type MetadataKind = Kind<
  MetadataDefinition,
  MetadataIndex,
  MetadataState,
  PreparedRecords,
  MetadataIndex
>;

/** The name of the index of a field. */
export const metadataIndexName = (field: Field): MetadataIndexName => `${metadataPrefix}${field.name}`;

/** The index of a field among the indexes of a view. */
export function indexOfField(indexes: LiveIndexes | undefined, field: Field): MetadataIndex | undefined {
  return indexes?.[metadataIndexName(field)] as MetadataIndex | undefined;
}

/** Any metadata index among those of a view: each holds all records. */
export function anyMetadataIndex(indexes: LiveIndexes | undefined): MetadataIndex | undefined {
  const name = Object.keys(indexes ?? {}).find(isMetadataIndex);
  return name && (indexes?.[name] as MetadataIndex | undefined);
}

/** Indexes by name. */
type LiveIndexes = Readonly<Partial<Record<IndexKind, Index>>>;

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

export function metadataIndexSize(field: Field, type: FieldType, { counts, sample }: Population): IndexSize {
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
