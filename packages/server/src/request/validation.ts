// What error does a client get when its request is not valid?
//
// Ajv stops at the first fault. For an `anyOf` it reports the faults of every branch and then one for the whole, so the last fault is used;
// of the branches only the path of the invalid part is used. A message never contains a vector, a text or a password.

import { fieldError, type QuiverError } from "@quiverdb/protocol/errors";
import { kindOf } from "@quiverdb/protocol/kind-of";

/** The part of Ajv's error object (with `verbose`) that is used here. */
export type ShapeFault = {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: Record<string, unknown>;
  readonly data?: unknown;
  readonly schema?: unknown;
  readonly parentSchema?: Record<string, unknown>;
};

/** Options of Fastify's validator: requests are not modified, and faults contain the invalid value. */
export const validatorOptions = {
  coerceTypes: false,
  removeAdditional: false,
  useDefaults: false,
  allErrors: false,
  verbose: true,
  allowUnionTypes: true,
} as const;

/** @param faults what the validator found, at least one */
export function shapeError(faults: readonly ShapeFault[]): QuiverError {
  const fault = faults[faults.length - 1];
  const at = readablePath(fault.instancePath);
  if (fault.keyword === "required") {
    const missing = String(fault.params.missingProperty);
    const path = at === "" ? missing : `${at}.${missing}`;
    const properties = fault.parentSchema?.properties as Record<string, Record<string, unknown>> | undefined;
    const expected = typeNames(properties?.[missing]?.type) || "a value";
    return fieldError(path, expected, "nothing", `${path} is missing; expected ${expected}.`);
  }
  if (at === "") {
    const received = describe(fault.data);
    return fieldError(
      "body",
      "a JSON object",
      received,
      `The request body must be a JSON object, not ${received}.`,
    );
  }
  const expected = expectation(fault);
  const secret = /(^|\.)password$/.test(at);
  const received = secret
    ? kindOf(fault.data)
    : describe(fault.data, fault.keyword === "enum") + partOf(fault, faults);
  return fieldError(at, expected, received, `${at} must be ${expected}, not ${received}.`);
}

/** The part of a value that a branch of an `anyOf` rejected: ` whose value is null`; "" if it rejected the whole value. */
function partOf({ keyword, instancePath }: ShapeFault, faults: readonly ShapeFault[]): string {
  if (keyword !== "anyOf") return "";
  const inside = (fault: ShapeFault) => fault.instancePath.startsWith(`${instancePath}/`);
  const part = faults.find((fault) => inside(fault) && fault.keyword !== "anyOf");
  if (part === undefined) return "";
  const name = readablePath(part.instancePath.slice(instancePath.length));
  return ` whose ${name} is ${describe(part.data)}`;
}

/** `/vectors/17/dense_values/3` -> `vectors[17].dense_values[3]` */
export function readablePath(pointer: string): string {
  let path = "";
  for (const part of pointer.split("/").slice(1)) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (/^\d+$/.test(name)) path += `[${name}]`;
    else path += path === "" ? name : `.${name}`;
  }
  return path;
}

/** Describes a value: its type, its size, and the value itself if it is a number or a word of a fixed set. */
export function describe(value: unknown, showText = false): string {
  // JSON has null where a list of JavaScript has undefined.
  if (value === undefined || value === null) return "null";
  if (Array.isArray(value))
    return value.length === 1 ? "an array of 1 item" : `an array of ${value.length} items`;
  if (typeof value === "object") return "an object";
  if (typeof value === "number") return `the number ${Object.is(value, -0) ? "-0" : value}`;
  if (typeof value === "boolean") return `the boolean ${value}`;
  const text = value as string;
  if (showText && text.length <= 40) return JSON.stringify(text);
  return text.length === 1 ? "a string of 1 character" : `a string of ${text.length} characters`;
}

const nouns: Record<string, string> = {
  string: "a string",
  number: "a finite number",
  integer: "an integer",
  boolean: "a boolean",
  array: "an array",
  object: "an object",
};

/** Names of JSON types, without the `null` that stands for an absent optional key. */
function typeNames(type: unknown): string {
  const names = (Array.isArray(type) ? type : [type]).filter(
    (name) => typeof name === "string" && name !== "null",
  );
  return names.map((name) => nouns[name] ?? name).join(" or ");
}

function expectation(fault: ShapeFault): string {
  const { keyword, params, parentSchema, schema } = fault;
  const noun = typeNames(parentSchema?.type) || "a value";
  switch (keyword) {
    case "type":
      if (isVector(parentSchema)) return 'an array of numbers or {"f32": "<base64>"}';
      return typeNames(params.type) + range(parentSchema);
    case "enum": {
      const values = (params.allowedValues as unknown[]).filter((value) => value !== null);
      return `one of ${values.map((value) => JSON.stringify(value)).join(", ")}`;
    }
    case "minimum":
    case "maximum":
    case "exclusiveMinimum":
    case "exclusiveMaximum":
      return noun + range(parentSchema);
    case "minLength":
      return `a string of at least ${params.limit} character${params.limit === 1 ? "" : "s"}`;
    case "maxLength":
      return `a string of at most ${params.limit} characters`;
    case "minItems":
      return `an array of at least ${params.limit} items`;
    case "maxItems":
      return `an array of at most ${params.limit} items`;
    case "uniqueItems":
      return "an array of different items";
    case "anyOf":
      return (schema as Record<string, unknown>[]).map(branchName).join(", or ");
    default:
      return noun;
  }
}

/** Whether the schema is that of a dense vector (shapes/vector.ts). */
const isVector = (schema: Record<string, unknown> | undefined): boolean =>
  Object.hasOwn((schema?.properties as object | undefined) ?? {}, "f32");

/** One branch of an `anyOf`: an object by its keys, an array by its length. */
function branchName(branch: Record<string, unknown>): string {
  if (branch.type === "object" && branch.properties) return `{${Object.keys(branch.properties).join(", ")}}`;
  if (branch.type === "array" && branch.minItems === branch.maxItems && branch.minItems !== undefined) {
    return `an array of ${branch.minItems} numbers`;
  }
  return typeNames(branch.type);
}

function range(schema: Record<string, unknown> | undefined): string {
  const { minimum, maximum, exclusiveMinimum } = schema ?? {};
  if (minimum !== undefined && maximum !== undefined) return ` from ${minimum} to ${maximum}`;
  if (exclusiveMinimum !== undefined && maximum !== undefined)
    return ` greater than ${exclusiveMinimum} and at most ${maximum}`;
  if (minimum !== undefined) return ` of at least ${minimum}`;
  if (maximum !== undefined) return ` of at most ${maximum}`;
  if (exclusiveMinimum !== undefined) return ` greater than ${exclusiveMinimum}`;
  return "";
}
