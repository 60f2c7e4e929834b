// Do the walk over a shape and Fastify's validator find the same fault?

import { allOperations } from "@quiverdb/engine/operations/operations";
import { Ajv } from "ajv";
import fc from "fast-check";
import { expect, test } from "vitest";
import { shapeFaults } from "./shape-check.ts";
import { type ShapeFault, shapeError, validatorOptions } from "./validation.ts";

const bodies = allOperations.filter(([, { examples }]) => examples.length > 0);
const ajv = new Ajv({ ...validatorOptions, strict: false });

const told = (faults: readonly ShapeFault[] | null | undefined) => faults && shapeError(faults).message;

/** Places in a value. */
function* placesIn(value: unknown, place: readonly string[] = []): Generator<readonly string[]> {
  yield place;
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) yield* placesIn(inner, [...place, key]);
}

/** A copy with another value at a place; undefined: nothing. */
function changed(value: unknown, [key, ...rest]: readonly string[], to: unknown): unknown {
  if (key === undefined) return to;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string, unknown>;
  copy[key] = changed(copy[key], rest, to);
  // A body is JSON, where a key without a value is none.
  return JSON.parse(JSON.stringify(copy));
}

const anyValue = fc.oneof(
  fc.constantFrom<unknown>(
    undefined,
    null,
    true,
    "",
    "auto",
    "hnsw",
    "keyword",
    [],
    {},
    [1, 2],
    [[1, 2]],
    [{ index: 1, value: 2 }],
  ),
  fc.constantFrom<unknown>(-1, 0, 0.5, 1, 16, 64, 10_001, 2 ** 32, 1e300, { f32: "AAAA" }, ["text", "text"], {
    enabled: 1,
  }),
  fc.jsonValue({ maxDepth: 3 }),
);

test.each(bodies)("[P1] %s", (_, { body, examples: given }) => {
  const shape = body as object;
  const validate = ajv.compile(shape);
  const expectSame = (body: unknown) => {
    validate(body);
    const expected = told(validate.errors as ShapeFault[] | null) ?? undefined;
    expect(told(shapeFaults(shape, body, "all")), JSON.stringify(body)).toBe(expected);
    return expected;
  };
  for (const body of given) expect(expectSame(body)).toBeUndefined();
  const change = fc.record({
    body: fc.constantFrom(...given),
    at: fc.nat(1_000),
    key: fc.option(fc.constantFrom("", "zzz", ...placesOfShape(shape)), { nil: undefined }),
    to: anyValue,
  });
  let faults = 0;
  fc.assert(
    fc.property(fc.array(change, { minLength: 1, maxLength: 2 }), (changes) => {
      let { body }: { body: unknown } = changes[0];
      for (const { at, key, to } of changes) {
        const places = [...placesIn(body)];
        const place = places[at % places.length];
        body = changed(body, key === undefined ? place : [...place, key], to) ?? null;
      }
      if (expectSame(body) !== undefined) faults++;
    }),
    { numRuns: 400 },
  );
  expect(faults).toBeGreaterThan(50);
});

/** The names of all fields of a shape. */
function placesOfShape(shape: object): string[] {
  const names = JSON.stringify(shape).matchAll(/"(\w+)":\{"/g);
  return [...new Set([...names].map(([, name]) => name))];
}
