// How is a large body validated without blocking the thread?
//
// A compiled schema cannot pause. So long arrays are validated separately, some items at a time, with the schema of their items. The rest,
// with empty arrays in their places, is small and is validated with the route's own schema. Faults are reported with their path in the
// whole body. In a body with several faults, this may report another fault than a validation of the whole would; but an unknown field is
// reported before all others, as in a small body.

import type { Steps } from "@quiverdb/engine/database/contract";
import { refuseUnknownFields } from "@quiverdb/protocol/fields";
import type { TSchema } from "typebox";
import { readablePath, type ShapeFault, shapeError } from "./validation.ts";

/** The parts of a JSON schema that can contain arrays. */
export type Schema = {
  readonly type?: string | readonly string[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
};

/** Validates a value; undefined if it is valid. Returns the same function for the same schema. */
export type CheckShape = (schema: Schema, value: unknown) => readonly ShapeFault[] | undefined;

/** Numbers, or values of similar size, that are validated in one step. */
const leavesPerStep = 4_096;

/**
 * Validates the long arrays of a body. Returns the body with empty arrays in their places, which remains to be validated.
 * @throws unknown_field, otherwise invalid_request, with the path of the fault
 */
export function* checkLongArrays(schema: Schema, body: unknown, check: CheckShape): Steps<unknown> {
  try {
    return yield* new Finder(check).shellOf(schema, body, "");
  } catch (fault) {
    // An unknown field may be a misspelt required one, so it is reported first.
    yield* refuseUnknownInSteps(schema, body, "");
    throw fault;
  }
}

/** `refuseUnknownFields` of a large value, in steps. @param path pointer to the value */
function* refuseUnknownInSteps(schema: Schema, value: unknown, path: string): Steps<void> {
  const { shell, long } = partsOf(schema, value);
  refuseUnknownFields(schema as TSchema, shell, readablePath(path));
  for (const { name, items, array } of long) {
    let leaves = 0;
    for (const [i, item] of array.entries()) {
      const at = `${path}/${name}/${i}`;
      const size = sizeOf(items, item);
      if (size > leavesPerStep) yield* refuseUnknownInSteps(items, item, at);
      else refuseUnknownFields(items as TSchema, item, readablePath(at));
      leaves += size;
      if (leaves < leavesPerStep) continue;
      leaves = 0;
      yield;
    }
  }
}

/** A long array of an object: its key, its schema, and the schema of its items. */
type LongArray = {
  readonly name: string;
  readonly schema: Schema;
  readonly items: Schema;
  readonly array: readonly unknown[];
};

/** The long arrays of an object, and the object with empty arrays in their places. */
function partsOf(schema: Schema, value: unknown): { shell: unknown; long: readonly LongArray[] } {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return { shell: value, long: [] };
  const long: LongArray[] = [];
  for (const [name, inner] of Object.entries(schema.properties ?? {})) {
    const part = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
    if (inner.items === undefined || !isLongArray(inner.items, part)) continue;
    long.push({ name, schema: inner, items: inner.items, array: part });
  }
  if (long.length === 0) return { shell: value, long };
  return { shell: { ...value, ...Object.fromEntries(long.map(({ name }) => [name, []])) }, long };
}

class Finder {
  readonly #check: CheckShape;

  constructor(check: CheckShape) {
    this.#check = check;
  }

  /** Validates the long arrays of an object; returns the object without them. */
  *shellOf(schema: Schema, value: unknown, path: string): Steps<unknown> {
    const { shell, long } = partsOf(schema, value);
    for (const part of long) yield* this.#checkArray(part, `${path}/${part.name}`);
    return shell;
  }

  *#checkArray({ schema, items, array }: LongArray, path: string): Steps<void> {
    this.#assert(bareOf(schema), array, path, 0);
    const runSchema = runOf(items);
    let run: unknown[] = [];
    let leaves = 0;
    let from = 0;
    for (let i = 0; i < array.length; i++) {
      const item = array[i];
      const size = sizeOf(items, item);
      run.push(size > leavesPerStep ? yield* this.shellOf(items, item, `${path}/${i}`) : item);
      leaves += Math.min(size, leavesPerStep);
      if (leaves < leavesPerStep && i + 1 < array.length) continue;
      this.#assert(runSchema, run, path, from);
      run = [];
      leaves = 0;
      from = i + 1;
      yield;
    }
  }

  /** @param from position of the value's first item in the array at `path` */
  #assert(schema: Schema, value: readonly unknown[], path: string, from: number): void {
    const faults = this.#check(schema, value);
    if (faults === undefined) return;
    throw shapeError(
      faults.map((fault) => ({ ...fault, instancePath: placed(fault.instancePath, path, from) })),
    );
  }
}

/** `/3/dense_values` in a run that begins at item 100 of `/vectors` is `/vectors/103/dense_values`. */
function placed(instancePath: string, path: string, from: number): string {
  const match = /^\/(\d+)(.*)$/s.exec(instancePath);
  return match === null ? path : `${path}/${from + Number(match[1])}${match[2]}`;
}

function isLongArray(items: Schema, value: unknown): value is unknown[] {
  if (!Array.isArray(value)) return false;
  return value.length > leavesPerStep || sizesOf(items, value) > leavesPerStep;
}

/** Approximate number of leaves of the items; counting stops when the limit is reached. */
function sizesOf(schema: Schema, items: readonly unknown[]): number {
  let size = 0;
  for (let i = 0; i < items.length && size <= leavesPerStep; i++) size += sizeOf(schema, items[i]);
  return size;
}

/** The number of leaves of a value in its arrays, plus one per property. */
function sizeOf(schema: Schema, value: unknown): number {
  if (Array.isArray(value)) return 1 + value.length;
  if (typeof value !== "object" || value === null) return 1;
  let size = 8;
  for (const name in schema.properties) {
    const part = (value as Record<string, unknown>)[name];
    if (Array.isArray(part)) size += part.length;
  }
  return size;
}

const bares = new WeakMap<Schema, Schema>();
/** The schema of an array without the schema of its items. */
function bareOf(schema: Schema): Schema {
  let bare = bares.get(schema);
  if (bare === undefined) {
    const { items: _, ...rest } = schema;
    bare = rest;
    bares.set(schema, bare);
  }
  return bare;
}

const runs = new WeakMap<Schema, Schema>();
/** The schema of an array of such items. */
function runOf(items: Schema): Schema {
  let run = runs.get(items);
  if (run === undefined) {
    run = { type: "array", items };
    runs.set(items, run);
  }
  return run;
}
