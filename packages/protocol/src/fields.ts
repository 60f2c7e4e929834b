// Which field of a request does nobody know?
//
// A field that is not known is refused: a search that silently drops its filter, or an import that silently drops a
// misspelt `metadata`, loses data. The shapes say what is known. An object with `additionalProperties: false` is closed;
// all others, such as `metadata`, may have any key. A shape is compiled once to the closed objects in it, so that
// looking through a record costs a look at each of its keys, and nothing for its numbers.
//
// Own keys count, and inherited ones do not: `__proto__` and `constructor` are names like any other. A key whose value is
// `undefined` is not there, as in JSON.

import type { TSchema } from "typebox";
import { QuiverError } from "./errors.ts";
import { nearestName } from "./nearest-name.ts";

/** An unknown field. */
export type UnknownField = {
  /** Its place: `vectors[17].metadta`. */
  readonly path: string;
  readonly name: string;
  /** What may stand in its place. */
  readonly known: readonly string[];
};

type ClosedObject = {
  readonly names: ReadonlySet<string>;
  /** Fields in which there are closed objects. */
  readonly inside: readonly (readonly [name: string, node: Node])[];
};

/** What is closed in a value, whether it is an object or an array. */
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
  if (items) {
    const inner = compile(items);
    return inner && { items: inner };
  }
  if (additionalProperties !== false) return undefined;
  const entries = Object.entries(properties ?? {});
  const inside = entries.flatMap(([name, field]) => {
    const node = compile(field);
    return node === undefined ? [] : [[name, node] as const];
  });
  return { object: { names: new Set(entries.map(([name]) => name)), inside } };
}

type Found = { path: string; readonly name: string; readonly object: ClosedObject };

function find(node: Node, value: unknown): Found | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  return Array.isArray(value) ? findInItems(node, value) : findInFields(node, value);
}

function findInItems({ items }: Node, values: readonly unknown[]): Found | undefined {
  if (items === undefined) return undefined;
  for (let i = 0; i < values.length; i++) {
    const found = find(items, values[i]);
    if (found === undefined) continue;
    found.path = `[${i}]${found.path}`;
    return found;
  }
  return undefined;
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

/** @param what the value is called. @throws invalid_request */
function requireObject(what: string, value: unknown): void {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return;
  throw new QuiverError("invalid_request", `${what} must be an object, not ${nameOf(value)}.`, { path: "" });
}

/** What a value is called that stands where an object should. */
function nameOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return Array.isArray(value) ? "an array" : `a ${typeof value}`;
}

const nameLengthMax = 80;

/** A step of a path, before the first of which the dot is cut off: `.metadta`, or `["a b"]` for what is no plain name. */
function step(name: string): string {
  if (/^[\w-]{1,80}$/.test(name)) return `.${name}`;
  const shown = name.length > nameLengthMax ? `${name.slice(0, nameLengthMax)}...` : name;
  return `[${JSON.stringify(shown)}]`;
}

/**
 * The first field of a value that its shape does not know: those of an object before those inside of it.
 * @param at what the value is called; empty for a body
 */
export function unknownField(shape: TSchema, value: unknown, at = ""): UnknownField | undefined {
  const node = nodeOf(shape);
  const found = node && find(node, value);
  if (found === undefined) return undefined;
  const path = at + found.path;
  return { path: path.replace(/^\./, ""), name: found.name, known: [...found.object.names] };
}

/**
 * Refuses the request of a call in the same process, which no schema has seen, where it is no object or has an unknown field.
 * @throws invalid_request, unknown_field
 */
export function checkFields(shape: TSchema, request: unknown): void {
  requireObject("The request", request);
  refuseUnknownFields(shape, request);
}

/** @throws unknown_field, which names the field's place and the nearest known name */
export function refuseUnknownFields(shape: TSchema, value: unknown, at = ""): void {
  const found = unknownField(shape, value, at);
  if (found !== undefined) throw unknownFieldError(found);
}

/** The error of an option or parameter that is not known. @param noun what it is */
export function unknownNameError(name: string, known: readonly string[], noun: string): QuiverError {
  return unknownFieldError({ path: step(name).replace(/^\./, ""), name, known }, noun);
}

/** The error that the sender of an unknown field gets. @param noun what it is, where it is no field */
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
 * Refuses options that are not known, of a call in the same process.
 * @param what the options are of, such as `search`
 * @throws unknown_field; invalid_request where they are no object
 */
export function refuseUnknownOptions(options: object | null | undefined, known: readonly string[]): void {
  requireObject("Options", options ?? {});
  for (const [name, value] of Object.entries(options ?? {})) {
    if (value === undefined || known.includes(name)) continue;
    throw unknownNameError(name, known, "option");
  }
}

/**
 * A copy of a value without the fields that its shape does not know.
 * @returns the copy, and the paths of what was left out without positions: `sparse_values[].weight`; the value itself
 * where it has none
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
  if (typeof value !== "object" || value === null) return value;
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
