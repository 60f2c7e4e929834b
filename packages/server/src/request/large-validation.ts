// How is the shape of a large body checked without holding the thread up?
//
// A compiled schema cannot pause. So arrays that are long are checked apart, some items at a time, by the schema of their items; what
// is left, a shell with empty arrays in their places, is small and goes through the route's own schema. A fault is named by its place
// in the whole body. A body with several faults can have another one of them named than a check of the whole would name.

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
 * @throws invalid_request or unknown_field naming the place of what does not fit
 */
export function* checkLongArrays(schema: Schema, body: unknown, check: CheckShape): Steps<unknown> {
  const fault = new Finder(check);
  return yield* fault.shellOf(schema, body, "");
}

class Finder {
  readonly #check: CheckShape;

  constructor(check: CheckShape) {
    this.#check = check;
  }

  /** An object without its long arrays, which are checked. */
  *shellOf(schema: Schema, value: unknown, path: string): Steps<unknown> {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    let shell: Record<string, unknown> | undefined;
    for (const [name, inner] of Object.entries(schema.properties ?? {})) {
      const part = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
      if (!isLongArray(inner, part)) continue;
      yield* this.#checkArray(inner, part, `${path}/${name}`);
      shell ??= { ...value };
      shell[name] = [];
    }
    return shell ?? value;
  }

  *#checkArray(schema: Schema, array: readonly unknown[], path: string): Steps<void> {
    this.#assert(bareOf(schema), array, path, 0);
    const { items } = schema;
    if (items === undefined) return;
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
      this.#assert(runSchema, run, path, from, items);
      run = [];
      leaves = 0;
      from = i + 1;
      yield;
    }
  }

  /**
   * @param from position of the value's first item in the array at `path`
   * @param items schema of the items, absent where they are not looked at
   */
  #assert(schema: Schema, value: readonly unknown[], path: string, from: number, items?: Schema): void {
    const faults = this.#check(schema, value);
    if (faults === undefined) return;
    // A field that is not known may be the one that is missing, so it is named first.
    if (items !== undefined)
      for (const [i, item] of value.entries())
        refuseUnknownFields(items as TSchema, item, readablePath(`${path}/${from + i}`));
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

function isLongArray(schema: Schema, value: unknown): value is unknown[] {
  if (schema.items === undefined || !Array.isArray(value)) return false;
  return value.length > leavesPerStep || sizesOf(schema.items, value) > leavesPerStep;
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
