// Unit tests of request parsing: JSON with positions, exact metadata, paths of faults, query strings.

import { finishAtOnce } from "@quiverdb/engine/database/contract";
import { type Operation, operations } from "@quiverdb/engine/operations/operations";
import { integer, readParameters, requiredId, word } from "@quiverdb/engine/operations/parameters";
import type { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { VectorInput } from "@quiverdb/protocol/shapes/vector";
import { Ajv, type ValidateFunction } from "ajv";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FairShare } from "../src/fair-share.ts";
import { BodyShare } from "../src/request/body.ts";
import { metadataSpans, withExactMetadata } from "../src/request/exact-metadata.ts";
import { parseBody } from "../src/request/json.ts";
import { type CheckShape, checkLongArrays, type Schema } from "../src/request/large-validation.ts";
import { bodyFormatOf } from "../src/request/media-type.ts";
import { parseQuery, queryOf } from "../src/request/query.ts";
import { describe as describeValue, readablePath, shapeError } from "../src/request/validation.ts";

const fault = (act: () => unknown): QuiverError => {
  try {
    act();
  } catch (error) {
    return error as QuiverError;
  }
  throw new Error("nothing was thrown");
};

const parse = (text: string | Buffer) =>
  finishAtOnce(parseBody(typeof text === "string" ? Buffer.from(text) : text));

describe("JSON", () => {
  test("[H6] malformed JSON is rejected with line, column and position of the first fault", () => {
    const cases: [string, number][] = [
      ["", 0],
      ["{", 1],
      ["[1,]", 3],
      ['{"a":}', 5],
      ['{"a" 1}', 5],
      ['{"a":1,}', 7],
      ["{'a':1}", 1],
      ["[1 2]", 3],
      ["[01]", 2],
      ["[1.]", 2],
      ["nul", 0],
      ["[NaN]", 1],
      ["[Infinity]", 1],
      ["[-]", 1],
      ['["a\nb"]', 3],
      ['["\\x"]', 3],
      ['["\\u12g4"]', 4],
      ['["abc', 5],
      ["1 2", 2],
      ["[1]]", 3],
      ["\ufeff{}", 0],
    ];
    for (const [text, position] of cases) {
      const error = fault(() => parse(text));
      expect([text, error.code, error.details.position]).toEqual([text, "invalid_json", position]);
    }
    expect(fault(() => parse('{"a": 1,\n "b": x}')).details).toEqual({ position: 15, line: 2, column: 7 });
  });

  test("[H6] the fault is found in every text that JSON.parse rejects", () => {
    const alphabet = ["{", "}", "[", "]", '"', ":", ",", "1", "-", ".", "e", "true", "nul", "\\", " ", "a"];
    const texts = fc.array(fc.constantFrom(...alphabet), { maxLength: 12 }).map((parts) => parts.join(""));
    fc.assert(
      fc.property(texts, (text) => {
        let value: unknown;
        try {
          value = JSON.parse(text);
        } catch {
          const { details } = fault(() => parse(text));
          const position = details.position as number;
          // The text before the fault is valid: no shorter prefix has an earlier fault.
          expect(position).toBeLessThanOrEqual(text.length);
          return;
        }
        expect(parse(text).value).toEqual(value);
      }),
      { numRuns: 3_000 },
    );
  });

  test("[H7] bytes that are not UTF-8 are rejected with the offset of the first of them", () => {
    const at = (bytes: number[]) => fault(() => parse(Buffer.from(bytes))).details.byte_offset;
    expect(at([0x22, 0xff, 0x22])).toBe(1);
    expect(at([0x22, 0xc3, 0x22])).toBe(1);
    expect(at([0x22, 0xed, 0xa0, 0x80, 0x22])).toBe(1);
    expect(at([0x22, 0xc3, 0xa4, 0xf0, 0x9f, 0x98])).toBe(3);
    expect(at([0x22, 0xc0, 0x80, 0x22])).toBe(1);
    const long = Buffer.alloc(100_000, "ä");
    long[70_001] = 0x41;
    expect(fault(() => parse(long)).details.byte_offset).toBe(70_000);
  });

  test("[H8] depth does not exhaust the stack, and __proto__ is an ordinary key", () => {
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    expect(Array.isArray(parse(deep).value)).toBe(true);
    expect(fault(() => parse(`${deep}]`)).details.position).toBe(200_000);
    const value = parse('{"__proto__": {"polluted": 1}, "a": 1, "a": 2}').value as Record<string, unknown>;
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(Object.keys(value)).toEqual(["__proto__", "a"]);
    expect(value.a).toBe(2);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });
});

describe("large bodies", () => {
  /** Texts that are longer than a piece: the generated value is between long filler. */
  const filler = (kind: number, length: number): string => {
    if (kind === 0) return JSON.stringify(Array.from({ length }, (_, i) => i / 7));
    if (kind === 1) return JSON.stringify('ä\\"]}[{,:x'.repeat(Math.ceil(length / 8)));
    if (kind === 2)
      return JSON.stringify(Array.from({ length: length / 8 }, (_, i) => ({ a: [i, "b"], c: null })));
    return `[${" \n".repeat(length)}]`;
  };
  const large = fc
    .array(fc.tuple(fc.string(), fc.nat(3), fc.integer({ min: 1_000, max: 60_000 }), fc.json()), {
      minLength: 3,
      maxLength: 6,
    })
    .map((members) =>
      members
        .map(([key, kind, length, json]) => `${JSON.stringify(key)} : [${filler(kind, length)} , ${json}]`)
        .join(" ,\n"),
    )
    .map((members) => ` {${members}} `);

  test("[O12] a large body is parsed with the same result as JSON.parse", () => {
    fc.assert(
      fc.property(large, (text) => {
        expect(parse(text).value).toEqual(JSON.parse(text));
      }),
      { numRuns: 60 },
    );
    expect(() => parse(`[${"[".repeat(70_000)}${"]".repeat(70_000)}]`)).not.toThrow();
  });

  test("[O12] [H6] a large body that JSON.parse rejects is rejected, with the position of the fault", () => {
    const cut = fc.tuple(
      large,
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.constantFrom("", "}", "]", ",", "x"),
    );
    fc.assert(
      fc.property(cut, ([text, share, put]) => {
        const at = Math.floor(share * (text.length - 1));
        const broken = `${text.slice(0, at)}${put}${text.slice(at + 1)}`;
        let value: unknown;
        try {
          value = JSON.parse(broken);
        } catch {
          const error = fault(() => parse(broken));
          expect(error.code).toBe("invalid_json");
          expect(error.details.position).toBeLessThanOrEqual(broken.length);
          return;
        }
        expect(parse(broken).value).toEqual(value);
      }),
      { numRuns: 100 },
    );
  });

  test("[O12] no step of parsing handles a large part of the body", () => {
    const text = `{"vectors":[${Array.from({ length: 5_000 }, (_, i) => `{"id":"v${i}","dense_values":${filler(0, 64)}}`).join(",")}]}`;
    const steps = [...parseBody(Buffer.from(text))].length;
    expect(steps).toBeGreaterThan(text.length / (2 * limits.bodyPieceBytes));
  });

  test("[O12] [H9] metadata of a large body keeps its numbers", () => {
    const vectors = Array.from(
      { length: 3_000 },
      (_, i) => `{"id":"v${i}","metadata":{"n":${i}.0,"text":"${"x".repeat(i % 90)}"}}`,
    );
    vectors[7] = `{"id":"long","text":${filler(1, 100_000)},"metadata":{"n":1e2}}`;
    const body = parse(`{"other":${filler(0, 30_000)},"vectors":[${vectors.join(",\n")}]}`);
    expect(body.spans?.length).toBe(6_000);
    const value = body.value as { vectors: VectorInput[] };
    const exact = finishAtOnce(withExactMetadata(value.vectors, body, "vectors"));
    expect(exact[7].metadataJson).toBe('{"n":1e2}');
    expect(exact[2_999].metadataJson).toBe(`{"n":2999.0,"text":"${"x".repeat(2_999 % 90)}"}`);
  });

  test("[O12] [E3] a fault in a long array is reported with its path, and valid arrays pass", () => {
    const ajv = new Ajv({ strict: false, verbose: true, allowUnionTypes: true });
    const compiled = new Map<unknown, ValidateFunction>();
    const check: CheckShape = (schema, value) => {
      const validate = compiled.get(schema) ?? ajv.compile(schema as object);
      compiled.set(schema, validate);
      return validate(value) ? undefined : (validate.errors as never);
    };
    const schema = operations.streamingUpsert.body as unknown as Schema;
    const whole = ajv.compile(schema as object);
    const shellOf = (body: unknown) => finishAtOnce(checkLongArrays(schema, body, check));
    const bodyOf = () => ({
      vectors: Array.from({ length: 400 }, (_, i) => ({
        id: `v${i}`,
        dense_values: Array.from({ length: i === 50 ? 9_000 : 20 }, () => 0.5) as unknown[],
        sparse_values: [[1, 2], { index: 3, value: 4 }] as unknown[],
      })) as Record<string, unknown>[],
    });
    expect(shellOf(bodyOf())).toEqual({ vectors: [] });
    const faults: [(body: ReturnType<typeof bodyOf>) => void, string][] = [
      [(body) => ((body.vectors[399].id as unknown) = 7), "vectors[399].id"],
      [
        (body) => ((body.vectors[50].dense_values as unknown[])[8_999] = "x"),
        "vectors[50].dense_values[8999]",
      ],
      [(body) => ((body.vectors[211].sparse_values as unknown[])[1] = null), "vectors[211].sparse_values[1]"],
      [(body) => (body.vectors[300] = null as never), "vectors[300]"],
      [(body) => delete body.vectors[50].id, "vectors[50].id"],
    ];
    for (const [break_, path] of faults) {
      const body = bodyOf();
      break_(body);
      expect(fault(() => shellOf(body)).details.path).toBe(path);
      expect(whole(body)).toBe(false);
    }
  });

  test("[E7] [O12] an unknown field of a large body is reported before other faults, wherever both are", () => {
    const ajv = new Ajv({ strict: false, verbose: true, allowUnionTypes: true });
    const check: CheckShape = (schema, value) => {
      const validate = ajv.compile(schema as object);
      return validate(value) ? undefined : (validate.errors as never);
    };
    const schema = operations.streamingUpsert.body as unknown as Schema;
    const pairs = Array.from({ length: 9_000 }, (_, i): unknown => ({ index: i, value: 1 }));
    const bodyOf = () => ({
      vectors: Array.from({ length: 400 }, (_, i) => ({
        id: `v${i}`,
        sparse_values: i === 50 ? [...pairs] : [],
        dense_values: Array.from({ length: 20 }, () => 0.5),
      })) as Record<string, unknown>[],
    });
    const unknowns: [(body: ReturnType<typeof bodyOf>) => void, string][] = [
      [(body) => (body.vectors[399].metadta = {}), "vectors[399].metadta"],
      [(body) => (body.vectors[50].metadta = {}), "vectors[50].metadta"],
      [
        (body) => ((body.vectors[50].sparse_values as unknown[])[8_999] = { index: 1, value: 2, wait: 3 }),
        "vectors[50].sparse_values[8999].wait",
      ],
    ];
    for (const [misname, path] of unknowns)
      for (const alsoWrong of [false, true]) {
        const body = bodyOf();
        misname(body);
        if (alsoWrong) body.vectors[0].id = 7;
        const error = fault(() => finishAtOnce(checkLongArrays(schema, body, check)));
        expect([error.code, error.details.path]).toEqual(["unknown_field", path]);
      }
  });
});

describe("exact metadata", () => {
  const complete = (text: string) => {
    const { vectors } = JSON.parse(text) as { vectors: VectorInput[] };
    return finishAtOnce(withExactMetadata(vectors, parse(text), "vectors"));
  };

  test("[H9] numbers that JavaScript cannot reproduce keep their text", () => {
    const numbers = [
      "12345678901234567890",
      "1e999",
      "-0",
      "5.0",
      "1E2",
      "0.1000000000000000055511151231257827",
      "1e-999",
    ];
    const metadata = `{"a":[${numbers.join(",")}],"b":{"c":-0.0},"d":7}`;
    const [vector] = complete(`{"vectors":[{"id":"x","metadata":${metadata}}]}`);
    expect(vector.metadataJson).toBe(metadata);
  });

  test("[H9] metadata without such numbers is serialised as usual", () => {
    const texts = ['{"a":1,"b":-2.5,"c":[0,1e+21]}', '{"a":"12345678901234567890"}', "{}", "null"];
    for (const metadata of texts) {
      expect(complete(`{"vectors":[{"id":"x","metadata":${metadata}}]}`)[0].metadataJson).toBeUndefined();
    }
  });

  test("[H9] if a key occurs twice, the last one counts, at every level", () => {
    const text =
      '{"vectors":[{"id":"old","metadata":{"a":1.0}}],"vectors":[{"id":"x","metadata":{"a":2.0},"metadata":{"a":3.0,"a":4.0}}]}';
    expect(complete(text)[0].metadataJson).toBe('{"a":4.0}');
  });

  test("[H9] __proto__ and escaped keys are preserved", () => {
    const [vector] = complete(
      '{"vectors":[{"id":"x","meta\\u0064ata":{"__proto__":{"a":1.0},"\\u0061":-0}}]}',
    );
    expect(vector.metadataJson).toBe('{"__proto__":{"a":1.0},"a":-0}');
    expect(({} as Record<string, unknown>).a).toBeUndefined();
  });

  test("[H9] unknown keys named metadata elsewhere are not mistaken for a record's", () => {
    const text =
      '{"metadata":{"a":1.0},"x":[{"metadata":{"a":1.0}}],"vectors":[{"id":"m\\"metadata\\":","extra":{"metadata":{"a":1.0}},"metadata":{"a":1}}]}';
    expect(complete(text)[0].metadataJson).toBeUndefined();
  });

  test("[H9] the spans of metadata are found in every body that JSON can write", () => {
    const value = fc.jsonValue({ maxDepth: 4 });
    const metadata = fc.option(fc.dictionary(fc.string(), value), { nil: undefined });
    const item = fc.record({ id: fc.string(), other: value, metadata }).map((r) => {
      if (r.metadata === undefined) delete (r as { metadata?: unknown }).metadata;
      return r;
    });
    const bodies = fc.record({ before: value, vectors: fc.array(item, { maxLength: 5 }), after: value });
    fc.assert(
      fc.property(bodies, fc.constantFrom(0, 1, 3), (body, indent) => {
        const text = JSON.stringify(body, undefined, indent);
        const spans = metadataSpans(text, "vectors");
        expect(spans.length).toBe(body.vectors.length);
        body.vectors.forEach((record, index) => {
          const span = spans[index];
          const found = span && JSON.parse(text.slice(span.start, span.end));
          expect(JSON.stringify(found)).toBe(JSON.stringify(record.metadata));
        });
      }),
      { numRuns: 500 },
    );
  });

  test("[H10] metadata deeper than the limit is rejected with its position", () => {
    const nested = (depth: number) => `${'{"a":'.repeat(depth - 1)}{}${"}".repeat(depth - 1)}`;
    const body = (depth: number) => `{"vectors":[{"id":"a"},{"id":"b","metadata":${nested(depth)}}]}`;
    expect(complete(body(64)).length).toBe(2);
    expect(fault(() => complete(body(65))).details.path).toBe("vectors[1].metadata");
    expect(fault(() => complete(body(100_000))).code).toBe("invalid_request");
    const single = JSON.parse(`{"id":"a","metadata":${nested(65)}}`) as VectorInput;
    expect(fault(() => finishAtOnce(withExactMetadata([single], parse("{}"), "body"))).details.path).toBe(
      "metadata",
    );
  });
});

describe("media type", () => {
  test("[H5] application/json is accepted with a charset of UTF-8, everything else is rejected", () => {
    const good = [
      "application/json",
      "Application/JSON",
      "application/json; charset=utf-8",
      'application/json;charset="UTF-8"',
      "application/json; x=y",
    ];
    const isBulk = [false, true];
    for (const bulk of isBulk)
      for (const type of good) expect([type, bodyFormatOf(type, undefined, bulk)]).toEqual([type, "json"]);
    const bad = [undefined, "", "text/plain", "application/jsonx", "application/json; charset=latin1", "*/*"];
    for (const bulk of isBulk)
      for (const type of [...bad, "application/x-ndjson; charset=latin1", "constructor"])
        expect(bodyFormatOf(type, undefined, bulk), String(type)).toMatchObject({
          code: "unsupported_media_type",
        });
    expect(bodyFormatOf("application/json", "gzip", true)).toMatchObject({ code: "unsupported_media_type" });
    expect(bodyFormatOf("application/json", "identity", false)).toBe("json");
  });

  test("[H28] operations that take many records also take lines of JSON and MessagePack, others do not", () => {
    for (const [type, format] of [
      ["application/x-ndjson", "ndjson"],
      ["Application/X-NDJSON; charset=utf-8", "ndjson"],
      ["application/msgpack", "msgpack"],
    ] as const) {
      expect(bodyFormatOf(type, undefined, true)).toBe(format);
      expect(bodyFormatOf(type, undefined, false)).toMatchObject({ code: "unsupported_media_type" });
      expect(bodyFormatOf(type, "gzip", true)).toMatchObject({ code: "unsupported_media_type" });
    }
  });
});

describe("query strings", () => {
  test("[H12] + is a space, and percent-encoding is UTF-8", () => {
    expect(
      queryOf(parseQuery("document_id=a+b%2Bc%20%F0%9F%98%80"), operations.vectorsByDocument.query)
        .document_id,
    ).toBe("a b+c 😀");
    expect(queryOf(parseQuery("document_id=a=b"), operations.vectorsByDocument.query).document_id).toBe(
      "a=b",
    );
  });

  test("[H12] a repeated, missing or malformed parameter is rejected by name", () => {
    const path = (text: string) =>
      fault(() => queryOf(parseQuery(text), operations.vectorsByDocument.query)).details.path;
    expect(path("document_id=a&document_id=a")).toBe("document_id");
    expect(path("")).toBe("document_id");
    expect(path("document_id=%zz")).toBe("query");
    expect(path("document_id=%ff")).toBe("query");
  });

  test("[H12] an unknown parameter is rejected, with the nearest known name", () => {
    const unknown = (text: string, route: Operation) => {
      const { code, details } = fault(() => queryOf(parseQuery(text), route.query));
      return [code, details.path, details.suggestion];
    };
    expect(unknown("limt=2", operations.listVersions)).toEqual(["unknown_field", "limt", "limit"]);
    expect(unknown("topK=2", operations.measureRecall)).toEqual(["unknown_field", "topK", "top_k"]);
    expect(unknown("limit=2&x%20y=1", operations.listVersions)).toEqual([
      "unknown_field",
      '["x y"]',
      undefined,
    ]);
    expect(unknown("__proto__=1", operations.listVersions)[1]).toBe("__proto__");
    expect(unknown("limit=2", operations.getCollection)).toEqual(["unknown_field", "limit", undefined]);
    expect(queryOf(parseQuery(""), undefined)).toEqual({});
  });

  test("[H12] numbers, words and ids in a query are checked", () => {
    const parameters = { limit: integer(1, 1000, ""), format: word(["flat"], "") };
    const document = { document_id: requiredId("") };
    const bad = (value: string) => fault(() => readParameters(parameters, { limit: value })).details.path;
    for (const value of ["", "0", "1001", "-1", "1.5", "1e2", "0x1", " 1", "abc", "9".repeat(40)])
      expect(bad(value)).toBe("limit");
    expect(readParameters(parameters, { limit: "1000" })).toEqual({ limit: 1000 });
    expect(readParameters(parameters, {})).toEqual({});
    expect(readParameters(parameters, { format: "flat" })).toEqual({ format: "flat" });
    expect(fault(() => readParameters(parameters, { format: "tall" })).details.path).toBe("format");
    expect(fault(() => readParameters(document, {})).details.path).toBe("document_id");
    expect(fault(() => readParameters(document, { document_id: "" })).details.path).toBe("document_id");
    expect(fault(() => readParameters(document, { document_id: "ä".repeat(257) })).details.path).toBe(
      "document_id",
    );
  });
});

describe("faults", () => {
  test("[E3] a path is written in JavaScript notation", () => {
    expect(readablePath("/vectors/17/dense_values/3")).toBe("vectors[17].dense_values[3]");
    expect(readablePath("/quantization/properties/range/min")).toBe("quantization.properties.range.min");
    expect(readablePath("")).toBe("");
  });

  test("[E3] for a value with several forms, the part that fits none is reported", () => {
    const schema = [{ type: "object", properties: { index: {}, value: {} } }];
    const whole = { keyword: "anyOf", instancePath: "/query_terms/3", params: {}, data: {}, schema };
    const part = { keyword: "type", params: {}, data: null };
    const at = (instancePath: string) => shapeError([{ ...part, instancePath }, whole]);
    expect(at("/query_terms/3/value").details.path).toBe("query_terms[3]");
    expect(at("/query_terms/3/value").details.received).toBe("an object whose value is null");
    expect(at("/query_terms/3").details.received).toBe("an object");
  });

  test("[E4] a received value is described, never repeated at length", () => {
    expect(describeValue("a long text that must not come back")).toBe("a string of 35 characters");
    expect(describeValue([1, 2, 3])).toBe("an array of 3 items");
    expect(describeValue({ a: 1 })).toBe("an object");
    expect(describeValue("manhattan", true)).toBe('"manhattan"');
    expect(describeValue(-0)).toBe("the number -0");
  });
});

describe("bodies in memory", () => {
  test("[H4] all bodies together have a limit, and release their share once", () => {
    const budget = new FairShare(100);
    const one = new BodyShare(budget, "a");
    const two = new BodyShare(budget, "a");
    expect(one.take(80)).toBe(true);
    expect(two.take(30)).toBe(false);
    const other = new BodyShare(budget, "b");
    expect(other.take(10)).toBe(true);
    other.end();
    one.end();
    one.end();
    expect(one.take(1)).toBe(false);
    expect(budget.taken).toBe(0);
    two.end();
    expect(budget.taken).toBe(0);
    expect(new BodyShare(budget, "a").take(1_000)).toBe(true);
  });
});
