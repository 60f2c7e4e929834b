// Does a record match a filter?
//
// A filter is compiled once. Of each record one pass over the metadata (metadata/scan.ts) finds the values of all fields that the filter
// asks for and notes which leaves hold; then the tree is evaluated. Nothing is parsed into objects.

import { invariant } from "../base/invariant.ts";
import type { Field, RecordField } from "../metadata/field.ts";
import { type FoundValue, MetadataScanner } from "../metadata/scan.ts";
import type { Condition } from "./condition.ts";
import { type Filter, leavesOf } from "./filter.ts";

/** What a filter reads of a record. */
export interface FilteredRecord {
  readonly id: string;
  readonly documentId: string | null;
  /** The JSON text in UTF-8; null if there is none. */
  readonly metadataBytes: Uint8Array | null;
}

type Test = () => boolean;

export class Predicate {
  readonly #evaluate: Test;
  /** Conditions by leaf. */
  readonly #conditions: readonly Condition[];
  /** Of the record that is tested: 1 for each leaf that holds. */
  readonly #holds: Uint8Array;
  readonly #scanner: MetadataScanner | null;
  /** Leaves by the field of the scanner. */
  readonly #leavesOfField: readonly number[][];
  /** Leaves that ask for ids, and for ids of documents. */
  readonly #leavesOfRecord: Readonly<Record<RecordField, number[]>> = { id: [], document_id: [] };
  readonly #text = new TextValue();
  readonly #fields: readonly Field[];
  /** By the field of the scanner: 1 where a record that was tested has a value. */
  readonly #isFound: Uint8Array;

  constructor(filter: Filter) {
    const leaves = leavesOf(filter);
    this.#conditions = leaves.map(({ condition }) => condition);
    this.#holds = new Uint8Array(leaves.length);
    const fields: Field[] = [];
    const leavesOfField: number[][] = [];
    for (const [leaf, { field }] of leaves.entries()) {
      if (field.record !== undefined) {
        this.#leavesOfRecord[field.record].push(leaf);
        continue;
      }
      const known = fields.findIndex(({ name }) => name === field.name);
      if (known >= 0) leavesOfField[known].push(leaf);
      else {
        fields.push(field);
        leavesOfField.push([leaf]);
      }
    }
    this.#leavesOfField = leavesOfField;
    this.#fields = fields;
    this.#isFound = new Uint8Array(fields.length);
    this.#scanner = fields.length === 0 ? null : new MetadataScanner(fields);
    let next = 0;
    this.#evaluate = testOf(filter, this.#holds, () => next++);
    invariant(next === leaves.length, () => `${next} of ${leaves.length} leaves are tested`);
  }

  matches(record: FilteredRecord): boolean {
    this.#holds.fill(0);
    const { id, document_id } = this.#leavesOfRecord;
    if (id.length > 0) this.#test(id, this.#text.of(record.id));
    if (document_id.length > 0 && record.documentId !== null)
      this.#test(document_id, this.#text.of(record.documentId));
    const metadata = this.#scanner === null ? null : record.metadataBytes;
    if (metadata !== null) this.#scanner?.scan(metadata, this.#visit);
    return this.#evaluate();
  }

  /** Names of the metadata fields at which a record that was tested has a value. */
  get fieldsFound(): string[] {
    return this.#fields.filter((_, field) => this.#isFound[field] === 1).map(({ name }) => name);
  }

  readonly #visit = (field: number, value: FoundValue): void => {
    this.#isFound[field] = 1;
    this.#test(this.#leavesOfField[field], value);
  };

  #test(leaves: readonly number[], value: FoundValue): void {
    for (const leaf of leaves)
      if (this.#holds[leaf] === 0 && this.#conditions[leaf].holds(value)) this.#holds[leaf] = 1;
  }
}

/** Leaves are numbered from left to right. */
function testOf(filter: Filter, holds: Uint8Array, number: () => number): Test {
  if (filter.kind === "leaf") {
    const leaf = number();
    return () => holds[leaf] === 1;
  }
  if (filter.kind === "not") {
    const part = testOf(filter.part, holds, number);
    return () => !part();
  }
  const parts = filter.parts.map((part) => testOf(part, holds, number));
  return filter.kind === "and" ? () => parts.every((part) => part()) : () => parts.some((part) => part());
}

/** A string that was not found by a scan. */
class TextValue implements FoundValue {
  readonly type = "string";
  readonly number = Number.NaN;
  readonly boolean = false;
  text = "";

  of(text: string): this {
    this.text = text;
    return this;
  }

  isText(text: string): boolean {
    return this.text === text;
  }
}
