// How is the shape of a large body checked without holding the thread up?
//
// A compiled schema cannot pause. So arrays that are long are checked apart, some items at a time, by the schema of their items; what
// is left, a shell with empty arrays in their places, is small and goes through the route's own schema. A fault is named by its place
// in the whole body. A body with several faults can have another one of them named than a check of the whole would name; but a field
// that is not known is named before all others, as in a small body.

import type { Steps } from "@quiver/engine/database/contract";
import { refuseUnknownFields } from "@quiver/protocol/fields";
import type { TSchema } from "typebox";
import { readablePath, type ShapeFault, shapeError } from "./validation.ts";

/** The parts of a JSON schema that lead to arrays. */
export type Schema = {
  readonly type?: string | readonly string[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
};

/** Checks a value; undefined where it fits. The same function for the same schema. */
export type CheckShape = (schema: Schema, value: unknown) => readonly ShapeFault[] | undefined;

/** Numbers, or things as small, that are checked at once. */
const leavesPerStep = 4_096;

/**
 * What is left of a body to be checked: itself, with empty arrays where the long ones were.
 * @throws unknown_field, or else invalid_request, naming the place of what does not fit
 */
export function* checkLongArrays(schema: Schema, body: unknown, check: CheckShape): Steps<unknown> {
  try {
    return yield* new Finder(check).shellOf(schema, body, "");
  } catch (fault) {
    // A field that is not known may be the one that is missing, so it is named first.
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

/** A long array of an object: its name there, its schema, and that of its items. */
type LongArray = {
  readonly name: string;
  readonly schema: Schema;
  readonly items: Schema;
  readonly array: readonly unknown[];
};

/** An object's long arrays, and the object with empty ones in their places. */
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

  /** An object without its long arrays, which are checked. */
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

/** About how many leaves items have; no more are counted than matter. */
function sizesOf(schema: Schema, items: readonly unknown[]): number {
  let size = 0;
  for (let i = 0; i < items.length && size <= leavesPerStep; i++) size += sizeOf(schema, items[i]);
  return size;
}

/** How many leaves a value has where its schema leads to arrays, and for each property one. */
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
/** A schema of arrays that says nothing of their items. */
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
