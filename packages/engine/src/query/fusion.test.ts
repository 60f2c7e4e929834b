import { expect, it } from "vitest";
import { finishAtOnce } from "../base/steps.ts";
import { kindsOf, planHybrid } from "./plan.ts";
import { fuse } from "./rank.ts";

const hits = (...ordinals: number[]) => ordinals.map((ordinal) => ({ ordinal, score: 1 }));
const scoresOf = (fused: { ordinal: number; score: number }[]) =>
  Object.fromEntries(fused.map(({ ordinal, score }) => [ordinal, score]));

it("[Q1] fusion is the sum of weight / (k + rank) over the legs that have the record, rank from 1", () => {
  const legs = [
    { hits: hits(7, 8, 9), weight: 1 },
    { hits: hits(8, 5), weight: 1 },
  ];
  expect(scoresOf(fuse(legs, 60))).toEqual({ 7: 1 / 61, 8: 1 / 62 + 1 / 61, 9: 1 / 63, 5: 1 / 62 });
  const weighted = fuse([{ ...legs[0], weight: 0.5 }, legs[1]], 1);
  expect(scoresOf(weighted)).toEqual({ 7: 0.5 / 2, 8: 0.5 / 3 + 1 / 2, 9: 0.5 / 4, 5: 1 / 3 });
});

it("[Q2] a hybrid search has two legs or three, each once, and weights that are not negative", () => {
  const definition = {
    name: "c",
    dense: true,
    dimension: 2,
    sparse: true,
    text: true,
    maxVectors: null,
    replicationFactor: null,
    storeRawText: false,
  };
  const all = { query_vector: [1, 2], query_terms: [{ index: 1, value: 2 }], query_text: "x" };
  expect(kindsOf(finishAtOnce(planHybrid(definition, all)))).toEqual(["dense", "sparse", "tf-idf"]);
  expect(kindsOf(finishAtOnce(planHybrid(definition, { ...all, query_terms: null })))).toEqual([
    "dense",
    "tf-idf",
  ]);
  expect(finishAtOnce(planHybrid(definition, { ...all, fusion_weights: { dense: 0.5 } })).fusion).toEqual({
    constant: 60,
    weights: { dense: 0.5, sparse: 1, "tf-idf": 1 },
  });
  for (const request of [
    { query_vector: [1, 2] },
    {},
    { ...all, fusion_constant_k: 0 },
    { ...all, fusion_constant_k: Number.POSITIVE_INFINITY },
    { ...all, fusion_weights: { text: -1 } },
    { ...all, query_vector: [1] },
  ])
    expect(() => finishAtOnce(planHybrid(definition, request))).toThrowError(
      expect.objectContaining({ code: "invalid_request" }),
    );
});
