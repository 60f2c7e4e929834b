// Which records have which values at one field of their metadata?
//
// Every record is held, with or without a value:
//
//   held      all records
//   present   those with a value at the field
//   others    those with a value that is not of the index's type: a number in a `keyword` index, a text that is no time in a `datetime`
//             index, an object. What a filter asks of such values it asks the records themselves; usually there are none
//   values    the values of the type: keyword-values.ts, number-values.ts (also moments), value-sets.ts
//
// A record that is removed leaves its values behind, and `present` hides them. When half of the values are left over, `tidy` makes new ones
// without them, in steps; records that come meanwhile are added to both.

import { invariant } from "../../base/invariant.ts";
import type { Steps } from "../../base/steps.ts";
import type { FieldLookup, FieldType, Side } from "../../filter/condition.ts";
import type { Field } from "../../metadata/field.ts";
import { type FieldIndex, keywordLengthMax, ValueFinder } from "../field-index.ts";
import { BitmapBuilder } from "../ordinal-bitmap.ts";
import { KeywordValues } from "./keyword-values.ts";
import { NumberValues } from "./number-values.ts";
import { BooleanValues, GrowingBitmap } from "./value-sets.ts";

/** The values of an index, by its type. */
export type TypedValues =
  | { readonly type: "keyword"; readonly values: KeywordValues }
  | { readonly type: "number" | "datetime"; readonly values: NumberValues }
  | { readonly type: "boolean"; readonly values: BooleanValues };

function emptyValues(type: FieldType): TypedValues {
  if (type === "keyword") return { type, values: new KeywordValues() };
  return type === "boolean" ? { type, values: new BooleanValues() } : { type, values: new NumberValues() };
}

function addTo(
  { values }: TypedValues,
  ordinal: number,
  found: readonly (string | number | boolean)[],
): void {
  // The finder gives values of the type alone.
  (values as { add(ordinal: number, found: readonly unknown[]): void }).add(ordinal, found);
}

/** Fewer values that are left over do not matter. */
const leftOverMin = 4_096;

type Compaction = {
  readonly steps: Steps<TypedValues>;
  /** Records that were added meanwhile. */
  readonly added: { readonly ordinal: number; readonly values: readonly (string | number | boolean)[] }[];
};

export class MetadataIndex implements FieldIndex {
  readonly type: FieldType;
  readonly #finder: ValueFinder;
  #values: TypedValues;
  readonly held: GrowingBitmap;
  readonly present: GrowingBitmap;
  readonly others: GrowingBitmap;
  readonly #retired = new Set<number>();
  /** Records that were removed since the values were made. */
  #leftOver: number;
  #compaction: Compaction | undefined;
  /** Records that are new or closed since the last checkpoint. */
  changes = 0;
  /** All records have smaller ordinals. */
  end: number;

  constructor(
    field: Field,
    type: FieldType,
    { values, held, present, others, leftOver, end }: MetadataParts = emptyParts(type),
  ) {
    this.type = type;
    this.#finder = new ValueFinder(field, type);
    this.#values = values;
    this.held = held;
    this.present = present;
    this.others = others;
    this.#leftOver = leftOver;
    this.end = end;
  }

  get typed(): TypedValues {
    return this.#values;
  }

  get count(): number {
    return this.held.count;
  }

  has(ordinal: number): boolean {
    return this.held.has(ordinal);
  }

  /** @param metadata JSON text in UTF-8; null if the record has none */
  add(ordinal: number, metadata: Uint8Array | null): void {
    invariant(ordinal >= this.end, () => `ordinal ${ordinal} is added to records up to ${this.end}`);
    this.end = ordinal + 1;
    this.changes++;
    this.held.add(ordinal);
    const { values, hasOther } = this.#finder.find(metadata);
    if (values.length > 0) {
      addTo(this.#values, ordinal, values);
      this.#compaction?.added.push({ ordinal, values });
    }
    if (hasOther) this.others.add(ordinal);
    if (hasOther || values.length > 0) this.present.add(ordinal);
    invariant(
      this.others.count <= this.present.count && this.present.count <= this.held.count,
      () => `of ${this.held.count} records ${this.present.count} have a value, ${this.others.count} another`,
    );
  }

  /** A closed record is found as before, and `visible` decides. */
  retire(ordinal: number): void {
    if (!this.has(ordinal)) return;
    this.#retired.add(ordinal);
    this.changes++;
  }

  remove(ordinal: number): void {
    this.#retired.delete(ordinal);
    if (!this.held.remove(ordinal)) return;
    this.others.remove(ordinal);
    if (this.present.remove(ordinal)) this.#leftOver++;
  }

  /** Records that were removed and whose values are left over, which `present` hides. */
  get leftOver(): number {
    return this.#leftOver;
  }

  lookUp(end: number): IndexLookup {
    return new IndexLookup(this, end);
  }

  /** Takes out what is left over. */
  hide(found: BitmapBuilder): void {
    if (this.#leftOver > 0) found.keepWords(this.present.words, Math.max(0, this.present.firstWord));
  }

  tidy(): boolean {
    if (this.#compaction === undefined) {
      if (this.#leftOver < leftOverMin || this.#leftOver < this.present.count) return false;
      this.#compaction = { steps: this.#compacted(), added: [] };
    }
    const { steps, added } = this.#compaction;
    const step = steps.next();
    if (!step.done) return true;
    for (const { ordinal, values } of added) addTo(step.value, ordinal, values);
    this.#values = step.value;
    this.#compaction = undefined;
    // Those that were removed since the compaction began may be left over in the new values, too.
    this.#leftOver -= this.#leftOverBefore;
    invariant(this.#leftOver >= 0, () => `${this.#leftOver} records are left over`);
    return false;
  }

  #leftOverBefore = 0;

  /** The values without those of removed records. */
  *#compacted(): Steps<TypedValues> {
    this.#leftOverBefore = this.#leftOver;
    // Records that are added from now on are added when this is done.
    const { end } = this;
    const keeps = (ordinal: number): boolean => ordinal < end && this.present.has(ordinal);
    const { type, values } = this.#values;
    const made =
      type === "keyword"
        ? { type, values: yield* values.without(keeps) }
        : type === "boolean"
          ? { type, values: yield* values.without(keeps) }
          : { type, values: yield* values.without(keeps) };
    return made as TypedValues;
  }

  /** Closed records that a checkpoint must not have. */
  get retired(): number[] {
    return [...this.#retired];
  }

  get isIdle(): boolean {
    return this.#compaction === undefined;
  }

  get memoryBytes(): number {
    const { held, present, others } = this;
    return (
      held.memoryBytes +
      present.memoryBytes +
      others.memoryBytes +
      this.#values.values.memoryBytes +
      fixedBytes
    );
  }

  get restoredBytes(): number {
    return this.memoryBytes;
  }

  check(): void {
    this.#values.values.check();
    for (const ordinal of this.present.ordinals())
      invariant(this.held.has(ordinal), `ordinal ${ordinal} has a value and is not held`);
    for (const ordinal of this.others.ordinals())
      invariant(this.present.has(ordinal), `ordinal ${ordinal} has another value and none`);
  }

  close(): void {
    this.#values = emptyValues(this.type);
    this.#compaction = undefined;
  }
}

/** Of an index's objects, about. */
export const fixedBytes = 4_096;

type MetadataParts = {
  readonly values: TypedValues;
  readonly held: GrowingBitmap;
  readonly present: GrowingBitmap;
  readonly others: GrowingBitmap;
  /** Removed records whose values are left over. */
  readonly leftOver: number;
  readonly end: number;
};

function emptyParts(type: FieldType): MetadataParts {
  return {
    values: emptyValues(type),
    held: new GrowingBitmap(),
    present: new GrowingBitmap(),
    others: new GrowingBitmap(),
    leftOver: 0,
    end: 0,
  };
}

// ---- How does a filter look records up in a metadata index?

type ValuesOf<T extends FieldType> = Extract<TypedValues, { readonly type: T }>["values"];

/** Look-ups in one index, whose finds make one set. */
class IndexLookup implements FieldLookup {
  readonly #index: MetadataIndex;
  readonly #typed: TypedValues;
  readonly #end: number;
  /** What was found; the caller's when all is looked up. */
  readonly found: BitmapBuilder;
  readonly textLengthMax = keywordLengthMax;

  /** @param end ordinals from here on are not found */
  constructor(index: MetadataIndex, end: number) {
    this.#index = index;
    this.#typed = index.typed;
    this.#end = end;
    this.found = new BitmapBuilder(end);
  }

  readonly #empty = (): BitmapBuilder => new BitmapBuilder(this.#end);

  get type(): FieldType {
    return this.#typed.type;
  }

  equalTexts(texts: readonly string[]): Steps<void> {
    return this.#valuesOf("keyword").addEqual(this.found, texts);
  }

  textsThat(passes: (text: string) => boolean): Steps<void> {
    return this.#valuesOf("keyword").addThat(this.found, passes);
  }

  equalNumbers(numbers: ReadonlySet<number>): Steps<void> {
    return this.#valuesOf("number", "datetime").addEqual(this.found, numbers, this.#empty);
  }

  beyond({ isGreater, isInclusive }: Side, bound: number): void {
    const values = this.#valuesOf("number", "datetime");
    if (isGreater) values.addGreater(this.found, bound, isInclusive, this.#empty);
    else values.addLess(this.found, bound, isInclusive);
  }

  equalBoolean(value: boolean): void {
    this.#valuesOf("boolean").addEqual(this.found, value);
  }

  present(): void {
    const { words, firstWord } = this.#index.present;
    this.found.addWords(words, Math.max(0, firstWord));
  }

  #valuesOf<T extends FieldType>(...types: T[]): ValuesOf<T> {
    const { type, values } = this.#typed;
    if (!types.some((wanted) => wanted === type))
      throw new Error(`a ${type} index has no values of ${types}`);
    return values as ValuesOf<T>;
  }
}
