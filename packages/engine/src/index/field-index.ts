// What does an index of one field of the metadata offer to filters, facets and scrolls?
//
// Its values are of one type. A record whose value is of another type is among the others, and is read instead.

import {
  type IndexKind,
  isMetadataIndex,
  type MetadataIndexName,
  metadataPrefix,
} from "@quiverdb/protocol/shapes/index-definition";
import type { Steps } from "../base/steps.ts";
import type { FieldLookup, FieldType } from "../filter/condition.ts";
import { type Field, timeOf } from "../metadata/field.ts";
import { type FoundValue, MetadataScanner } from "../metadata/scan.ts";
import type { Index } from "./contract.ts";
import type { BitmapBuilder } from "./ordinal-bitmap.ts";

/** A set of ordinals that grows and shrinks with an index: borrowed, until the next change. */
interface IndexedOrdinals {
  readonly count: number;
  has(ordinal: number): boolean;
  /** Ascending. */
  ordinals(): Iterable<number>;
  /** A bit for each ordinal from 32 times `firstWord` on; that is negative if there was none. */
  readonly words: Uint32Array;
  readonly firstWord: number;
}

/** Pairs of value and ordinal, with values that no other part of an index has. Can be read again and again. */
export type ValuePart<T> = Iterable<readonly [value: T, ordinal: number]> & {
  /** Bounds of the values: all are the same if these are. */
  readonly least: T;
  readonly greatest: T;
};

/** All pairs, in parts with ascending values. */
interface ValueParts<T> {
  parts(): readonly ValuePart<T>[];
}

/** All pairs, in a part for each string, which has a number; in no order. */
interface StringParts {
  parts(): Iterable<ValuePart<string>>;
  /** The numbers of all strings in the order of the strings. */
  sorted(): Steps<Uint32Array>;
  /** The place of the first string that is not less than another one. @param sorted numbers in the order of their strings */
  placeIn(sorted: Uint32Array, string: string): number;
  part(number: number): ValuePart<string>;
}

/** The values of an index, by its type. */
export type FieldValues =
  | { readonly type: "keyword"; readonly values: StringParts }
  | { readonly type: "number" | "datetime"; readonly values: ValueParts<number> }
  | { readonly type: "boolean"; readonly values: ValueParts<boolean> };

export interface FieldIndex extends Index {
  readonly type: FieldType;
  readonly typed: FieldValues;
  /** All records; those with a value at the field; those with a value of another type. */
  readonly held: IndexedOrdinals;
  readonly present: IndexedOrdinals;
  readonly others: IndexedOrdinals;
  /** Begins a look-up, whose finds make one set: the caller's when all is looked up. @param end ordinals from here on are not found */
  lookUp(end: number): FieldLookup & { readonly found: BitmapBuilder };
  /** Takes out of what was found the records that were removed. */
  hide(found: BitmapBuilder): void;
}

/** The name of the index of a field. */
export const metadataIndexName = (field: Field): MetadataIndexName => `${metadataPrefix}${field.name}`;

/** The index of a field among the indexes of a view. */
export function indexOfField(indexes: LiveIndexes | undefined, field: Field): FieldIndex | undefined {
  return indexes?.[metadataIndexName(field)] as FieldIndex | undefined;
}

/** Any index of a field among those of a view: each holds all records. */
export function anyFieldIndex(indexes: LiveIndexes | undefined): FieldIndex | undefined {
  const name = Object.keys(indexes ?? {}).find(isMetadataIndex);
  return name && (indexes?.[name] as FieldIndex | undefined);
}

/** Indexes by name. */
type LiveIndexes = Readonly<Partial<Record<IndexKind, Index>>>;

/** Longer strings are not in an index: the lengths of its dictionary are u16. */
export const keywordLengthMax = 0xfffe;

/** A value of an index of a type; undefined if the value is of another type. */
function typedValue(type: FieldType, value: FoundValue): string | number | boolean | undefined {
  switch (type) {
    case "keyword":
      return value.type === "string" && value.text.length <= keywordLengthMax ? value.text : undefined;
    case "number":
      return value.type === "number" ? value.number : undefined;
    case "boolean":
      return value.type === "boolean" ? value.boolean : undefined;
    case "datetime": {
      const moment = value.type === "string" ? timeOf(value.text) : Number.NaN;
      return Number.isNaN(moment) ? undefined : moment;
    }
  }
}

/** The values of records, found by one scan after the other. */
export class ValueFinder {
  readonly #type: FieldType;
  readonly #scanner: MetadataScanner;
  values: (string | number | boolean)[] = [];
  /** Whether the record has a value that is not of the type. */
  hasOther = false;

  constructor(field: Field, type: FieldType) {
    this.#type = type;
    this.#scanner = new MetadataScanner([field]);
  }

  find(metadata: Uint8Array | null): this {
    this.values = [];
    this.hasOther = false;
    if (metadata !== null) this.#scanner.scan(metadata, this.#visit);
    return this;
  }

  readonly #visit = (_field: number, value: FoundValue): void => {
    const typed = typedValue(this.#type, value);
    if (typed === undefined) this.hasOther = true;
    else this.values.push(typed);
  };
}
