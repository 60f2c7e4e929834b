// How much memory will a metadata index take?
//
// By the layout of its values, from a sample of the records: so many values each, and of strings so many different ones. Columns are partly
// unused after they have grown, so the estimate is within about a third.

import type { FieldType } from "../../filter/condition.ts";
import type { Field } from "../../metadata/field.ts";
import type { IndexSize, Population } from "../kind.ts";
import { sizeBy, TermSample } from "../postings/term-sample.ts";
import { fixedBytes, ValueFinder } from "./metadata-index.ts";

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
