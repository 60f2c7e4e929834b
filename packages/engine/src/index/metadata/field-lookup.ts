// How does a filter look records up in a metadata index?

import type { Steps } from "../../base/steps.ts";
import type { FieldLookup, FieldType, Side } from "../../filter/condition.ts";
import { BitmapBuilder } from "../bitmap-builder.ts";
import { keywordLengthMax } from "./keyword-values.ts";
import type { MetadataIndex, TypedValues } from "./metadata-index.ts";

type ValuesOf<T extends FieldType> = Extract<TypedValues, { readonly type: T }>["values"];

/** Look-ups in one index, whose finds make one set. */
export class IndexLookup implements FieldLookup {
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
