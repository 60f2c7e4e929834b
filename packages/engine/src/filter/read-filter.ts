// How is a filter written?
//
//   {"and": [f, ...]}   {"or": [f, ...]}   {"not": f}
//   {"field": "a.b", "gte": 1, "lt": 9}        a leaf: all its operators hold
//   {"color": "red", "n": {"gte": 1}}          the short form: all its fields, each equal to a value or with operators
//   {"Is": {"field_name": "a", "operator": "Equal", "field_value": 1}}   {"And": [f, ...]}   {"Or": [f, ...]}   of published clients
//
// So `field`, `and`, `or`, `not`, `Is`, `And` and `Or` are no fields of the short form. As everywhere, a key whose value is null counts as
// absent; a field of the short form must not be null, because that would look like a condition and be none. Every fault is reported with
// its path. Reading runs in steps, because lists of values can be long.

import { kindOf } from "@quiverdb/protocol/kind-of";
import { limits } from "@quiverdb/protocol/limits";
import { nearestName } from "@quiverdb/protocol/nearest-name";
import type { Steps } from "../base/steps.ts";
import { type Field, fieldNamed } from "../metadata/field.ts";
import {
  type Condition,
  type Coverage,
  type FieldLookup,
  invalidFilter,
  isScalar,
  type Operator,
  wrongOperand,
} from "./condition.ts";
import { equality } from "./equality.ts";
import type { Filter } from "./filter.ts";
import { order } from "./order.ts";
import { textPart } from "./text-part.ts";

const connectives: Readonly<Record<string, "and" | "or">> = { and: "and", And: "and", or: "or", Or: "or" };
const reserved = ["and", "or", "not", "And", "Or", "Is"];
const operatorOfClient: Readonly<Record<string, string>> = { Equal: "eq", NotEqual: "ne" };

const example = '{"field": "color", "eq": "red"}';

/** Values of lists that are read at a step, about. */
const valuesPerStep = 20_000;

/**
 * Reads a filter.
 * @param path of the filter in messages, such as `queries[3].filter`
 * @returns null where there is none
 * @throws invalid_filter
 */
export function* readFilter(value: unknown, path = "filter"): Steps<Filter | null> {
  if (value === null || value === undefined) return null;
  return yield* new FilterReader().filter(value, path, 1);
}

export const tooDeep = (path: string) =>
  invalidFilter(path, `is nested too deeply; at most ${limits.filterLevelsMax} levels are allowed.`, {
    maximum: limits.filterLevelsMax,
  });

type Entry = readonly [key: string, value: unknown];

class FilterReader {
  #leaves = 0;
  #values = 0;

  *filter(value: unknown, path: string, level: number): Steps<Filter> {
    if (typeof value !== "object" || value === null || Array.isArray(value))
      throw invalidFilter(path, `is ${kindOf(value)}; expected an object such as ${example}.`);
    if (level > limits.filterLevelsMax) throw tooDeep(path);
    const entries = Object.entries(value).filter(([, held]) => held !== null && held !== undefined);
    if (entries.some(([key]) => key === "field")) return yield* this.#leaf(entries, path);
    const connective = entries.find(([key]) => reserved.includes(key));
    if (connective === undefined) return yield* this.#short(entries, value, path);
    if (entries.length > 1)
      throw invalidFilter(
        path,
        `has other keys beside '${connective[0]}', which must stand alone; put all of them into {"and": [...]}.`,
      );
    return yield* this.#connective(connective, path, level);
  }

  *#connective([key, value]: Entry, path: string, level: number): Steps<Filter> {
    const at = `${path}.${key}`;
    if (key === "Is") return this.#clientLeaf(value, at);
    if (key === "not") return { kind: "not", part: yield* this.filter(value, at, level + 1) };
    if (!Array.isArray(value)) throw invalidFilter(at, `is ${kindOf(value)}; expected ${expectedOf(key)}.`);
    const parts: Filter[] = [];
    for (const [i, part] of value.entries()) parts.push(yield* this.filter(part, `${at}[${i}]`, level + 1));
    return { kind: connectives[key], parts };
  }

  /** `{"field": "a.b", "gte": 1, "lt": 9}` */
  *#leaf(entries: readonly Entry[], path: string): Steps<Filter> {
    const name = entries.find(([key]) => key === "field")?.[1];
    const field = readField(name, `${path}.field`);
    const inside = entries.filter(([key]) => key !== "field");
    return yield* this.#operators(field, inside, path, `${path}.field`);
  }

  /** `{"color": "red", "n": {"gte": 1}}` */
  *#short(entries: readonly Entry[], value: object, path: string): Steps<Filter> {
    const absent = Object.entries(value).find(([, held]) => held === null);
    if (absent !== undefined) {
      const expected = reserved.includes(absent[0])
        ? expectedOf(absent[0])
        : 'a value; to find the records without one, write {"exists": false}';
      throw invalidFilter(memberPath(path, absent[0]), `is null; expected ${expected}.`);
    }
    const parts: Filter[] = [];
    for (const [name, held] of entries) {
      const at = memberPath(path, name);
      const field = readField(name, at);
      const meant = keyMeant(name, held);
      if (meant !== undefined)
        throw invalidFilter(
          at,
          `is no field with a value or operators; did you mean '${meant}'? A field of this name is written {"field": ${JSON.stringify(name)}, "eq": ...}.`,
          { suggestion: meant },
        );
      if (isScalar(held)) parts.push(this.#statement(field, "eq", held, at, at));
      else if (Array.isArray(held))
        throw wrongOperand(at, held, 'a value, or operators; for a list of values write {"in": [...]}');
      else if (typeof held !== "object") throw wrongOperand(at, held, "a value, or an object with operators");
      else {
        const inside = Object.entries(held as object).filter(([, one]) => one !== null && one !== undefined);
        parts.push(yield* this.#operators(field, inside, at, at));
      }
    }
    return parts.length === 1 ? parts[0] : { kind: "and", parts };
  }

  *#operators(field: Field, entries: readonly Entry[], path: string, fieldPath: string): Steps<Filter> {
    const known = `Operators: ${[...operators.keys()].join(", ")}.`;
    if (entries.length === 0)
      throw invalidFilter(
        path,
        `has no operator; expected one such as "eq" with a value that is not null. To find the records without a value, write "exists": false. ${known}`,
      );
    const parts: Filter[] = [];
    for (const [name, operand] of entries) {
      const at = memberPath(path, name);
      if (!operators.has(name)) {
        const suggestion = meantByQdrant(name) ?? nearestName(name, operators.keys());
        const hint = suggestion === undefined ? "." : `; did you mean '${suggestion}'?`;
        throw invalidFilter(
          at,
          `is no operator${hint} ${known}`,
          suggestion === undefined ? {} : { suggestion },
        );
      }
      parts.push(this.#statement(field, name, operand, at, fieldPath));
      if (this.#values < valuesPerStep) continue;
      this.#values = 0;
      yield;
    }
    return parts.length === 1 ? parts[0] : { kind: "and", parts };
  }

  /** `{"field_name": "a", "operator": "Equal", "field_value": 1}` */
  #clientLeaf(value: unknown, path: string): Filter {
    if (typeof value !== "object" || value === null || Array.isArray(value))
      throw invalidFilter(path, `is ${kindOf(value)}; expected ${expectedOf("Is")}.`);
    const known = ["field_name", "operator", "field_value"];
    const unknown = Object.keys(value).find((key) => !known.includes(key));
    if (unknown !== undefined)
      throw invalidFilter(memberPath(path, unknown), `is not known; expected ${known.join(", ")}.`);
    const { field_name, operator, field_value } = value as Record<string, unknown>;
    const fieldPath = `${path}.field_name`;
    const field = readField(field_name, fieldPath);
    const name =
      typeof operator === "string" && Object.hasOwn(operatorOfClient, operator) ? operator : undefined;
    if (name === undefined) {
      const received =
        typeof operator === "string" ? JSON.stringify(operator.slice(0, 40)) : kindOf(operator);
      throw invalidFilter(
        `${path}.operator`,
        `is ${received}; expected "Equal" or "NotEqual". For other operators write {"field": "n", "gte": 1}.`,
      );
    }
    return this.#statement(field, operatorOfClient[name], field_value, `${path}.field_value`, fieldPath);
  }

  #statement(field: Field, name: string, operand: unknown, path: string, fieldPath: string): Filter {
    if (++this.#leaves > limits.filterLeavesMax)
      throw invalidFilter(path, `is one condition too many; at most ${limits.filterLeavesMax} are allowed.`, {
        maximum: limits.filterLeavesMax,
      });
    const operator = operators.get(name);
    if (operator === undefined) throw invalidFilter(path, "is no operator.");
    const { condition, isNegated } = operator.read(operand, path);
    this.#values += Array.isArray(operand) ? operand.length : 1;
    const places = { field: fieldPath, operand: path };
    const written = { operator: name, operand, isNegated };
    const leaf: Filter = { kind: "leaf", field, condition, written, places };
    return isNegated ? { kind: "not", part: leaf } : leaf;
  }
}

/** What stands behind a reserved key, in words. */
function expectedOf(key: string): string {
  if (key === "Is") return "an object with field_name, operator and field_value";
  return key === "not" ? `a filter such as ${example}` : "an array of filters";
}

/** What the words of Qdrant mean here: its connectives, and the keys of its conditions. */
const wordsOfQdrant: Readonly<Record<string, string>> = {
  must: "and",
  should: "or",
  must_not: "not",
  match: "eq",
  range: "gte",
};

/** The key that a field looks like, such as `$and`, `OR` or `must`, if what it has can be neither a value nor operators. */
function keyMeant(name: string, held: unknown): string | undefined {
  if (typeof held !== "object" || held === null) return undefined;
  if (!Array.isArray(held) && Object.keys(held).some((key) => operators.has(key))) return undefined;
  const plain = name.replace(/^\$/, "").toLowerCase();
  return reserved.find((key) => key.toLowerCase() === plain) ?? meantByQdrant(plain);
}

/** Whether a condition of Qdrant has this key: such a condition can be read as one on fields of these names. */
export const isKeyOfQdrant = (name: string): boolean => ["key", "match", "range"].includes(name);

const meantByQdrant = (word: string): string | undefined =>
  Object.hasOwn(wordsOfQdrant, word) ? wordsOfQdrant[word] : undefined;

/** The field of a name that a request has. @param path of the name. @throws invalid_filter */
export function readField(name: unknown, path: string): Field {
  if (typeof name !== "string")
    throw invalidFilter(path, `is ${kindOf(name)}; expected the name of a field, such as "color" or "a.b".`);
  if (name.length > limits.filterFieldLengthMax)
    throw invalidFilter(
      path,
      `has ${name.length} characters, at most ${limits.filterFieldLengthMax} are allowed.`,
    );
  const field = fieldNamed(name);
  if (field === null)
    throw invalidFilter(path, "ends with a backslash; a backslash makes the next character part of a key.");
  return field;
}

/** The path of a member; keys that are no plain names, or long, are quoted and shortened. */
function memberPath(path: string, key: string): string {
  if (/^[\w-]{1,80}$/.test(key)) return `${path}.${key}`;
  return `${path}[${JSON.stringify(key.length > 80 ? `${key.slice(0, 80)}...` : key)}]`;
}

// ---- Which operators has a leaf of a filter?

/**
 * `exists`: the field has any value. Null counts as absent, as everywhere in the interface, and so does an array without elements, because an
 * array stands for its elements. An object counts as a value.
 */
class AnyValue implements Condition {
  readonly key = "exists";
  readonly types = null;

  holds(): boolean {
    return true;
  }

  lookUp(index: FieldLookup): Coverage {
    index.present();
    return "all";
  }

  asTime(): this {
    return this;
  }
}

const expects = "true or false";

const presence: readonly Operator[] = [
  {
    name: "exists",
    expects,
    read(operand, path) {
      if (typeof operand !== "boolean") throw wrongOperand(path, operand, expects);
      return { condition: new AnyValue(), isNegated: !operand };
    },
  },
];

/** By name. A new group of operators is a file and a line here. */
const operators: ReadonlyMap<string, Operator> = new Map(
  [equality, order, presence, textPart].flat().map((operator) => [operator.name, operator]),
);
