import { operations } from "@quiverdb/engine/operations/operations";
import Type from "typebox";
import { describe, expect, test } from "vitest";
import { isQuiverError } from "./errors.ts";
import { refuseUnknownFields, refuseUnknownOptions, unknownField, withoutUnknownFields } from "./fields.ts";
import { nearestName } from "./nearest-name.ts";
import { Fields, Maybe } from "./shapes/common.ts";
import { CreateDenseIndex } from "./shapes/index-definition.ts";
import { BatchSparseSearch } from "./shapes/search.ts";
import { UpsertVectors, VectorInput } from "./shapes/vector.ts";

const pathOf = (...given: Parameters<typeof unknownField>) => unknownField(...given)?.path;

describe("unknown fields", () => {
  test("[E7] are named with their path, in objects, arrays and alternative forms", () => {
    expect(pathOf(UpsertVectors, { vectors: [{ id: "a" }, { id: "b", metadta: {} }] })).toBe(
      "vectors[1].metadta",
    );
    expect(pathOf(CreateDenseIndex, { index: { properties: { efSearch: 1 } } })).toBe(
      "index.properties.efSearch",
    );
    const pair = { vectors: [{ sparse_values: [[1, 2], 3, { index: 1, value: 2, weight: 3 }] }] };
    expect(pathOf(UpsertVectors, pair)).toBe("vectors[0].sparse_values[2].weight");
    expect(pathOf(BatchSparseSearch, { query_terms_list: [[[1, 2]], [{ idx: 1 }]] })).toBe(
      "query_terms_list[1][0].idx",
    );
    expect(pathOf(VectorInput, { lang: "en" }, "vectors[3]")).toBe("vectors[3].lang");
  });

  test("[E7] an object's own are named before those of nested objects", () => {
    expect(pathOf(UpsertVectors, { vectors: [{ a: 1 }], zz: 1 })).toBe("zz");
  });

  test("[E7] metadata may have any key, at any depth", () => {
    const metadata = { metadata: { topK: { dense_value: [{ idd: 1 }] } }, ["__proto__"]: 1, constructor: 2 };
    expect(pathOf(UpsertVectors, { vectors: [{ id: "a", metadata }] })).toBeUndefined();
  });

  test("[E7] __proto__ and constructor are ordinary names, and inherited keys are ignored", () => {
    expect(pathOf(VectorInput, JSON.parse('{"id":"a","__proto__":{"x":1}}'))).toBe("__proto__");
    expect(pathOf(VectorInput, JSON.parse('{"constructor":1}'))).toBe("constructor");
    expect(pathOf(VectorInput, Object.create({ lang: "en" }))).toBeUndefined();
    expect(pathOf(VectorInput, { id: "a", lang: undefined })).toBeUndefined();
  });

  test("[E7] a name that is not an identifier is quoted, and a long one is truncated", () => {
    expect(pathOf(VectorInput, { "a b\n": 1 }, "vectors[0]")).toBe('vectors[0]["a b\\n"]');
    expect(pathOf(VectorInput, { ["k".repeat(10_000)]: 1 })).toBe(`["${"k".repeat(80)}..."]`);
    expect(pathOf(VectorInput, { "": 1 })).toBe('[""]');
  });

  test("[E7] the error has the code, the path, the expected fields and the nearest known name", () => {
    let thrown: unknown;
    try {
      refuseUnknownFields(UpsertVectors, { vectors: [{ id: "a", metadta: {} }] });
    } catch (error) {
      thrown = error;
    }
    if (!isQuiverError(thrown, "unknown_field")) throw new Error("not refused");
    expect(thrown.message).toContain("vectors[0].metadta is not a known field; did you mean `metadata`?");
    expect(thrown.details).toEqual({
      path: "vectors[0].metadta",
      expected:
        "one of id, document_id, dense_values, sparse_indices, sparse_values, text, metadata, if_match, if_absent",
      suggestion: "metadata",
    });
  });

  test("an open object, a number or nothing has no unknown fields", () => {
    const open = Type.Object({ a: Type.Number() });
    expect(pathOf(open, { b: 1 })).toBeUndefined();
    expect(pathOf(Fields({ a: Maybe(Type.Number()) }), 7)).toBeUndefined();
    expect(pathOf(Fields({ a: Maybe(Type.Number()) }), null)).toBeUndefined();
  });

  test("[E7] options of a call in the same process", () => {
    expect(() => refuseUnknownOptions({ timeout: 5 }, ["timeoutMs", "signal"])).toThrow(
      /did you mean `timeoutMs`/,
    );
    refuseUnknownOptions({ timeoutMs: 5, other: undefined }, ["timeoutMs"]);
    refuseUnknownOptions(undefined, []);
  });

  test("are left out of a copy, and the original stays", () => {
    const given = {
      id: "a",
      lang: "en",
      sparse_values: [{ index: 1, value: 2, w: 1 }],
      metadata: { any: 1 },
    };
    const { value, removed } = withoutUnknownFields(VectorInput, given);
    expect(value).toEqual({ id: "a", sparse_values: [{ index: 1, value: 2 }], metadata: { any: 1 } });
    expect(removed).toEqual(["lang", "sparse_values[].w"]);
    expect(given.lang).toBe("en");
    const clean = { id: "a" };
    expect(withoutUnknownFields(VectorInput, clean).value).toBe(clean);
  });
});

test("[E7] every object in every body is closed, but for metadata", () => {
  const open: string[] = [];
  const walk = (schema: Record<string, unknown>, at: string): void => {
    const { properties, items, anyOf, type } = schema as {
      properties?: Record<string, Record<string, unknown>>;
      items?: Record<string, unknown>;
      anyOf?: Record<string, unknown>[];
      type?: string | string[];
    };
    if ([type].flat().includes("object") && schema.additionalProperties !== false) open.push(at);
    for (const [name, inner] of Object.entries(properties ?? {})) walk(inner, `${at}.${name}`);
    if (items) walk(items, `${at}[]`);
    for (const branch of anyOf ?? []) walk(branch, at);
  };
  for (const [name, route] of Object.entries(operations))
    if ("body" in route) walk(route.body as unknown as Record<string, unknown>, name);
  expect(open.sort()).toEqual([
    "addVector.metadata",
    "patchVector.metadata",
    "streamingUpsert.vectors[].metadata",
    "updateMatching.metadata",
    "upsertVectors.vectors[].metadata",
  ]);
});

describe("the nearest name", () => {
  const record = Object.keys(VectorInput.properties);
  test.each([
    ["metadta", "metadata"],
    ["meta_data", "metadata"],
    ["Metadata", "metadata"],
    ["documentId", "document_id"],
    ["document-id", "document_id"],
    ["denseValues", "dense_values"],
    ["dense_value", "dense_values"],
    ["sparse_index", "sparse_indices"],
    ["embedding", undefined],
    ["namespace", undefined],
    ["ID", "id"],
    ["x", undefined],
    ["", undefined],
    ["metadtaa", "metadata"],
    ["m".repeat(100_000), undefined],
  ])("of %s is %s", (name, expected) => {
    expect(nearestName(name, record)).toBe(expected);
  });

  test.each([
    ["topK", "top_k"],
    ["efSearch", "ef_search"],
    ["return_text", "return_raw_text"],
    ["queryvector", "query_vector"],
    ["filter", undefined],
  ])("of %s among a search's fields is %s", (name, expected) => {
    const fields = [
      "query_vector",
      "top_k",
      "return_raw_text",
      "explain",
      "ef_search",
      "recall_target",
      "exact",
    ];
    expect(nearestName(name, fields)).toBe(expected);
  });
});
