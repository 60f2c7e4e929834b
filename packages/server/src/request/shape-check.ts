// Has a value the shape of a schema, asked without a compiled validator?
//
// For requests of the same process: over HTTP Fastify's validator (Ajv) asks, which takes 8 MB and some milliseconds for each shape before its
// first request. Both find the same fault first, so that a mistake has one message (validation.ts): the type, then what belongs to it, and of an
// object what is missing, what is unknown, and its fields in the order of the shape. shape-check.test.ts compares the two. Of JSON Schema it
// knows what the shapes of the protocol use.

import type { ShapeFault } from "./validation.ts";

type Schema = {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
  readonly items?: Schema;
  readonly required?: readonly string[];
  readonly additionalProperties?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
};

type Faults = readonly ShapeFault[] | undefined;

/**
 * The faults of a value, as Ajv reports them: one, or where none of several shapes fits those of each and one for the whole, which is last. A
 * field that is undefined counts as absent, as in JSON, and a typed array as an array of numbers.
 * @param depth `list`: the items of lists are not looked at, so that the cost does not depend on their number. `all`: everything, and numbers that
 * JSON cannot represent are numbers, because what they are is told elsewhere
 */
export function shapeFaults(schema: object, value: unknown, depth: "list" | "all"): Faults {
  return new Walk(depth === "all").faults(schema as Schema, value, "");
}

class Walk {
  readonly #isWhole: boolean;

  constructor(isWhole: boolean) {
    this.#isWhole = isWhole;
  }

  faults(schema: Schema, value: unknown, at: string): Faults {
    const fault = (keyword: keyof Schema, params: Record<string, unknown> = {}): Faults => [
      { keyword, instancePath: at, params, data: value, schema: schema[keyword], parentSchema: schema },
    ];
    const { type, anyOf } = schema;
    if (type !== undefined && !hasType(value, type)) return fault("type", { type });
    if (typeof value === "number" && !this.#isWhole && !Number.isFinite(value))
      return fault("type", { type });
    if (typeof value === "number") {
      if (value > (schema.maximum ?? value)) return fault("maximum");
      if (value < (schema.minimum ?? value)) return fault("minimum");
      if (schema.exclusiveMinimum !== undefined && value <= schema.exclusiveMinimum)
        return fault("exclusiveMinimum");
    }
    if (typeof value === "string") {
      const { minLength = 0, maxLength = value.length } = schema;
      if (value.length > maxLength && [...value].length > maxLength)
        return fault("maxLength", { limit: maxLength });
      if (value.length < minLength) return fault("minLength", { limit: minLength });
    }
    if (schema.enum && !schema.enum.includes(value)) return fault("enum", { allowedValues: schema.enum });
    if (anyOf !== undefined) {
      const ofBranches = anyOf.map((branch) => this.faults(branch, value, at));
      if (!ofBranches.includes(undefined))
        return [...ofBranches.flatMap((some) => some ?? []), ...(fault("anyOf") ?? [])];
    }
    if (Array.isArray(value)) {
      if (value.length > (schema.maxItems ?? value.length))
        return fault("maxItems", { limit: schema.maxItems });
      if (value.length < (schema.minItems ?? 0)) return fault("minItems", { limit: schema.minItems });
      if (schema.uniqueItems && repeats(value, schema.items?.type)) return fault("uniqueItems");
      return this.#ofItems(schema, value, at);
    }
    if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return undefined;
    const fields = value as Record<string, unknown>;
    const absent = schema.required?.find((name) => fields[name] === undefined);
    if (absent !== undefined) return fault("required", { missingProperty: absent });
    return hasUnknown(schema, fields) ? fault("additionalProperties") : this.#ofFields(schema, fields, at);
  }

  #ofItems({ items }: Schema, values: readonly unknown[], at: string): Faults {
    if (items === undefined || !this.#isWhole) return undefined;
    for (let i = 0; i < values.length; i++) {
      const found = this.faults(items, values[i], `${at}/${i}`);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #ofFields({ properties = {} }: Schema, fields: Record<string, unknown>, at: string): Faults {
    for (const name in properties) {
      if (fields[name] === undefined) continue;
      const found = this.faults(properties[name], fields[name], `${at}/${name}`);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

function hasUnknown(
  { additionalProperties, properties = {} }: Schema,
  fields: Record<string, unknown>,
): boolean {
  if (additionalProperties !== false) return false;
  for (const name in fields) if (fields[name] !== undefined && !Object.hasOwn(properties, name)) return true;
  return false;
}

/** Whether two items are equal; of those alone that have their type, as others are the greater mistake. */
function repeats(items: readonly unknown[], type: Schema["type"]): boolean {
  const typed = type === undefined ? items : items.filter((item) => hasType(item, type));
  return new Set(typed).size < typed.length;
}

const hasType = (value: unknown, type: string | readonly string[]): boolean =>
  typeof type === "string" ? isOf(type, value) : type.some((one) => isOf(one, value));

function isOf(type: string, value: unknown): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value) || ArrayBuffer.isView(value);
    case "object":
      return (
        typeof value === "object" && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value)
      );
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}
