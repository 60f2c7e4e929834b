// Which fields of a request are unknown?
//
// Unknown fields are rejected: a search that silently dropped its filter, or an import that silently dropped a misspelt `metadata`, would
// lose data. The shapes define the known fields. An object with `additionalProperties: false` is closed; all others, such as `metadata`,
// may have any key. Each shape is compiled once to its closed objects, so that checking a record costs one lookup per key and nothing for
// its numbers.
//
// Only own keys count: `__proto__` and `constructor` are ordinary names. A key whose value is `undefined` counts as absent, as in JSON.

import type { TSchema } from "typebox";
import { QuiverError } from "./errors.ts";
import { nearestName } from "./nearest-name.ts";

/** An unknown field. */
export type UnknownField = {
  /** Its path: `vectors[17].metadta`. */
  readonly path: string;
  readonly name: string;
  /** The fields that are known there. */
  readonly known: readonly string[];
};

type ClosedObject = {
  readonly names: ReadonlySet<string>;
  /** Fields that contain closed objects. */
  readonly inside: readonly (readonly [name: string, node: Node])[];
};

/** The closed parts of a value: as an object, and as an array. */
type Node = { readonly object?: ClosedObject; readonly items?: Node };

type JsonSchema = {
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: unknown;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
};

const compiled = new WeakMap<object, { node: Node | undefined }>();

function nodeOf(shape: TSchema): Node | undefined {
  const known = compiled.get(shape);
  if (known !== undefined) return known.node;
  const node = compile(shape as JsonSchema);
  compiled.set(shape, { node });
  return node;
}

function compile({ anyOf, items, properties, additionalProperties }: JsonSchema): Node | undefined {
  // Branches differ in their type: an object, an array, a number.
  if (anyOf) return Object.assign({}, ...anyOf.map((branch) => compile(branch) ?? {}));
  const ofItems = items && compile(items);
  const node: Node = {
    ...(ofItems !== undefined && { items: ofItems }),
    ...(additionalProperties === false && { object: closedObject(properties ?? {}) }),
  };
  return node.items === undefined && node.object === undefined ? undefined : node;
}

function closedObject(properties: Readonly<Record<string, JsonSchema>>): ClosedObject {
  const entries = Object.entries(properties);
  const inside = entries.flatMap(([name, field]) => {
    const node = compile(field);
    return node === undefined ? [] : [[name, node] as const];
  });
  return { names: new Set(entries.map(([name]) => name)), inside };
}

type Found = { path: string; readonly name: string; readonly object: ClosedObject };

function find(node: Node, value: unknown): Found | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (Array.isArray(value)) return findInItems(node, value);
  // The numbers of a typed array would look like fields.
  return ArrayBuffer.isView(value) ? undefined : findInFields(node, value);
}

function findInItems({ items }: Node, values: readonly unknown[]): Found | undefined {
  if (items === undefined) return undefined;
  const names = items.object?.inside.length === 0 ? items.object.names : undefined;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (typeof value === "number" || (names !== undefined && hasOnly(names, value))) continue;
    const found = find(items, value);
    if (found === undefined) continue;
    found.path = `[${i}]${found.path}`;
    return found;
  }
  return undefined;
}

/** Whether a value is an object without other fields. A query has hundreds of `{index, value}`, and most are as they should be. */
function hasOnly(names: ReadonlySet<string>, value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  for (const name in value) if (!names.has(name)) return false;
  return true;
}

function findInFields({ object }: Node, value: object): Found | undefined {
  if (object === undefined) return undefined;
  const fields = value as Record<string, unknown>;
  for (const name in fields) {
    if (object.names.has(name) || !Object.hasOwn(fields, name) || fields[name] === undefined) continue;
    return { path: step(name), name, object };
  }
  for (const [name, inner] of object.inside) {
    const found = find(inner, fields[name]);
    if (found === undefined) continue;
    found.path = step(name) + found.path;
    return found;
  }
  return undefined;
}

/** @param what name of the value in messages. @throws invalid_request */
function requireObject(what: string, value: unknown): void {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return;
  throw new QuiverError("invalid_request", `${what} must be an object, not ${nameOf(value)}.`, { path: "" });
}

/** Names a value that should be an object. */
function nameOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return Array.isArray(value) ? "an array" : `a ${typeof value}`;
}

const nameLengthMax = 80;

/** One step of a path: `.metadta`, or `["a b"]` for a name that is not an identifier. The caller cuts off the dot of the first step. */
function step(name: string): string {
  if (/^[\w-]{1,80}$/.test(name)) return `.${name}`;
  const shown = name.length > nameLengthMax ? `${name.slice(0, nameLengthMax)}...` : name;
  return `[${JSON.stringify(shown)}]`;
}

/**
 * The first unknown field of a value; an object's own fields come before those of nested objects.
 * @param at path of the value; empty for a body
 */
export function unknownField(shape: TSchema, value: unknown, at = ""): UnknownField | undefined {
  const node = nodeOf(shape);
  const found = node && find(node, value);
  if (found === undefined) return undefined;
  const path = at + found.path;
  return { path: path.replace(/^\./, ""), name: found.name, known: [...found.object.names] };
}

/**
 * Rejects a request of a call in the same process (which no schema has checked) if it is not an object or has an unknown field.
 * @throws invalid_request, unknown_field
 */
export function checkFields(shape: TSchema, request: unknown): void {
  requireObject("The request", request);
  refuseUnknownFields(shape, request);
}

/** @throws unknown_field, with the field's path and the nearest known name */
export function refuseUnknownFields(shape: TSchema, value: unknown, at = ""): void {
  const found = unknownField(shape, value, at);
  if (found !== undefined) throw unknownFieldError(found);
}

/** The error for an unknown option or parameter. @param noun what kind of thing it is */
export function unknownNameError(name: string, known: readonly string[], noun: string): QuiverError {
  return unknownFieldError({ path: step(name).replace(/^\./, ""), name, known }, noun);
}

/** The error for an unknown field. @param noun what kind of thing it is, if not a field */
export function unknownFieldError({ path, name, known }: UnknownField, noun = "field"): QuiverError {
  const suggestion = nearestName(name, known);
  const hint = suggestion === undefined ? "." : `; did you mean \`${suggestion}\`?`;
  const expected = known.length === 0 ? `no ${noun}` : `one of ${known.join(", ")}`;
  const names = known.length === 0 ? `There is no ${noun} here.` : `Known: ${known.join(", ")}.`;
  return new QuiverError(
    "unknown_field",
    `${path} is not a known ${noun}${hint} ${names} Nothing was changed. ` +
      "Correct the name or leave it out, and send the request again.",
    { path, expected, ...(suggestion !== undefined && { suggestion }) },
  );
}

/**
 * Rejects unknown options of a call in the same process.
 * @param the call that the options belong to, such as `search`
 * @throws unknown_field; invalid_request if they are not an object
 */
export function refuseUnknownOptions(options: object | null | undefined, known: readonly string[]): void {
  requireObject("Options", options ?? {});
  for (const [name, value] of Object.entries(options ?? {})) {
    if (value === undefined || known.includes(name)) continue;
    throw unknownNameError(name, known, "option");
  }
}

/**
 * A copy of a value without its unknown fields.
 * @returns the copy, and the paths of the removed fields without positions (`sparse_values[].weight`); the value itself if it has no
 *   unknown fields
 */
export function withoutUnknownFields(
  shape: TSchema,
  value: unknown,
): { readonly value: unknown; readonly removed: readonly string[] } {
  const removed = new Set<string>();
  const node = nodeOf(shape);
  if (node === undefined || find(node, value) === undefined) return { value, removed: [] };
  const copy = strip(node, value, "", removed);
  return { value: copy, removed: [...removed] };
}

function strip(node: Node, value: unknown, path: string, removed: Set<string>): unknown {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return value;
  if (Array.isArray(value)) {
    const { items } = node;
    return items === undefined ? value : value.map((item) => strip(items, item, `${path}[]`, removed));
  }
  const { object } = node;
  if (object === undefined) return value;
  const inside = new Map(object.inside);
  const kept: [string, unknown][] = [];
  for (const [name, field] of Object.entries(value)) {
    const at = path + step(name);
    if (!object.names.has(name)) removed.add(at.replace(/^\./, ""));
    else kept.push([name, inside.has(name) ? strip(inside.get(name) as Node, field, at, removed) : field]);
  }
  return Object.fromEntries(kept);
}
