// What do all shapes have in common?
//
// A shape is a TypeBox schema, from which its TypeScript type, its validation and its part of the OpenAPI document are derived. Every
// object of a request is closed (`Fields`): unknown keys are rejected. `null` for an optional key means absent.

import Type, { type Static, type TObjectOptions, type TProperties, type TSchema } from "typebox";

type JsonSchema = { type: string | readonly string[]; enum?: readonly unknown[] } & Record<string, unknown>;

/** An object of a request with these fields; any other field is rejected with `unknown_field` (fields.ts). */
export function Fields<T extends TProperties>(properties: T, options: TObjectOptions = {}) {
  return Type.Object(properties, { ...options, additionalProperties: false });
}

/**
 * An optional key that also accepts `null`, which means absent. The schema must have a `type`, not an `anyOf`.
 * @param schema the shape of the value, if it is given
 */
export function Maybe<T extends TSchema>(schema: T) {
  const json = schema as unknown as JsonSchema;
  if (json.type === undefined) throw new Error("Maybe() takes a schema with a type");
  const widened: Record<string, unknown> = { ...json, type: [json.type, "null"].flat() };
  if (json.enum) widened.enum = [...json.enum, null];
  return Type.Optional(Type.Unsafe<Type.Static<T> | null>(widened as TSchema));
}

/**
 * A key that the interface names as required, and that may be left out all the same.
 * @param otherwise what it is then, for the description; the engine fills it in
 */
export function Defaulted<T extends TSchema>(schema: T, otherwise: Type.Static<T>) {
  const { description, ...rest } = schema as unknown as JsonSchema;
  const told = `Required, or left out for ${JSON.stringify(otherwise)}.`;
  return Maybe({
    ...rest,
    default: otherwise,
    description: description === undefined ? told : `${description} ${told}`,
  } as unknown as T);
}

/** A string of a fixed set, as one `enum` (gives shorter messages than a union of constants). */
export function OneOf<const T extends readonly string[]>(values: T, options: Record<string, unknown> = {}) {
  return Type.Unsafe<T[number]>({ ...options, type: "string", enum: values } as unknown as TSchema);
}

/** A map with values of one shape. A TypeBox record would be `patternProperties`, where OpenAPI's own tools write `additionalProperties`. */
export function mapOf<T extends TSchema>(value: T, options: TObjectOptions = {}) {
  return Type.Unsafe<Record<string, Type.Static<T>>>(
    Type.Object({}, { ...options, additionalProperties: value }),
  );
}

export const Empty = Type.Object({}, { description: "An empty object." });

export const ErrorShape = Type.Object(
  {
    error: Type.Object({
      code: Type.String({ description: "Stable code, see the error table." }),
      message: Type.String({
        description: "What was received, what was expected, and what to do, with the position of the item.",
      }),
      details: Type.Record(Type.String(), Type.Unknown(), {
        description: "The same information for programs.",
      }),
    }),
  },
  { description: "Every error response has this shape." },
);
export type Empty = Static<typeof Empty>;
