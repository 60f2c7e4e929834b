import { describe, expect, test } from "vitest";
import { indented, memberOf } from "../src/json-text.ts";
import { colorsOf } from "../src/map/colors.ts";
import { arrange, firstTwo } from "../src/map/layout.ts";
import { principalCoordinates, randomFrom } from "../src/map/pca.ts";
import { addressOf, exampleOf, operationsOf } from "../src/openapi.ts";
import { parseMetrics, quantile, Reading, rate, readingsOf, withReading } from "../src/prometheus.ts";
import { hrefOf, parseRoute } from "../src/route.ts";
import { narrowed, parseFilter, parseTerms, parseVector } from "../src/written.ts";

/** The value that a generator returns. */
function resultOf<T>(generator: Generator<unknown, T>): T {
  for (;;) {
    const { done, value } = generator.next();
    if (done) return value;
  }
}

describe("principal components", () => {
  /** Vectors that differ along given directions, by given amounts. */
  function cloud(count: number, dimension: number, spreads: readonly number[], seed: number) {
    const random = randomFrom(seed);
    const directions = spreads.map((_, k) =>
      Array.from({ length: dimension }, (_, d) => Number(d === (3 * k) % dimension)),
    );
    const values = new Float32Array(count * dimension);
    const shares: number[][] = [];
    for (let i = 0; i < count; i++) {
      const share = spreads.map((spread) => spread * (random() + random() + random() - 1.5));
      shares.push(share);
      for (let d = 0; d < dimension; d++) values[i * dimension + d] = 5 + 0.01 * random();
      share.forEach((amount, k) => {
        for (let d = 0; d < dimension; d++) values[i * dimension + d] += amount * directions[k][d];
      });
    }
    return { vectors: { values, count, dimension }, shares };
  }

  const correlation = (a: readonly number[], b: readonly number[]) => {
    const mean = (list: readonly number[]) => list.reduce((sum, value) => sum + value, 0) / list.length;
    const [meanA, meanB] = [mean(a), mean(b)];
    const product = (x: readonly number[], mx: number, y: readonly number[], my: number) =>
      x.reduce((sum, value, i) => sum + (value - mx) * (y[i] - my), 0);
    return product(a, meanA, b, meanB) / Math.sqrt(product(a, meanA, a, meanA) * product(b, meanB, b, meanB));
  };

  test("[U9] are the directions in which vectors differ most, in this order", () => {
    for (const [count, dimension, seed] of [
      [400, 12, 1],
      [1_000, 40, 2],
      [300, 300, 3],
      // The directions are those of every n-th.
      [12_000, 10, 4],
    ]) {
      const { vectors, shares } = cloud(count, dimension, [9, 4, 2], seed);
      const found = resultOf(principalCoordinates(vectors, 3));
      for (let k = 0; k < 3; k++) {
        const column = Array.from({ length: count }, (_, i) => found[3 * i + k]);
        const spread = shares.map((share) => share[k]);
        expect(Math.abs(correlation(column, spread))).toBeGreaterThan(0.99);
      }
    }
  });

  test("[U9] keep all distances if there are as many as dimensions", () => {
    const { vectors } = cloud(60, 4, [3, 2, 1, 1], 4);
    const found = resultOf(principalCoordinates(vectors, 4));
    const distance = (values: Float32Array, i: number, j: number) =>
      Math.hypot(...[0, 1, 2, 3].map((d) => values[4 * i + d] - values[4 * j + d]));
    for (let i = 1; i < 60; i++) expect(distance(found, 0, i)).toBeCloseTo(distance(vectors.values, 0, i), 3);
  });

  test("[U9] do not turn over when more of them are computed", () => {
    const { vectors } = cloud(500, 30, [9, 4, 2], 6);
    const two = resultOf(principalCoordinates(vectors, 2));
    const four = resultOf(principalCoordinates(vectors, 4));
    for (let i = 0; i < 500; i++)
      for (let k = 0; k < 2; k++) expect(four[4 * i + k]).toBeCloseTo(two[2 * i + k], 3);
  });

  test("[U9] are the same for the same vectors, and finite for equal ones and for one", () => {
    const { vectors } = cloud(100, 8, [3, 1], 5);
    expect(resultOf(principalCoordinates(vectors, 2))).toEqual(resultOf(principalCoordinates(vectors, 2)));
    for (const count of [1, 50]) {
      const equal = { values: new Float32Array(count * 8).fill(0.5), count, dimension: 8 };
      expect([...resultOf(principalCoordinates(equal, 2))].every(Number.isFinite)).toBe(true);
    }
    const narrow = { values: Float32Array.of(1, 2, 3), count: 3, dimension: 1 };
    expect(firstTwo(resultOf(principalCoordinates(narrow, 1)), 1)).toHaveLength(6);
  });
});

test("[U9] UMAP keeps groups together that are apart", () => {
  const random = randomFrom(9);
  const count = 120;
  const coordinates = Float32Array.from(
    { length: count * 3 },
    (_, i) => random() + (Math.floor(i / 3) % 2) * 20 * Number(i % 3 === 0),
  );
  let points = new Float32Array(0);
  for (const step of arrange(coordinates, 3, 1_000, () => 0)) points = step.points ?? points;
  let again = new Float32Array(0);
  for (const step of arrange(coordinates, 3, 1_000, () => 0)) again = step.points ?? again;
  expect(again).toEqual(points);
  expect(points).toHaveLength(2 * count);
  const distance = (i: number, j: number) =>
    Math.hypot(points[2 * i] - points[2 * j], points[2 * i + 1] - points[2 * j + 1]);
  let nearestOfSameGroup = 0;
  for (let i = 0; i < count; i++) {
    const others = Array.from({ length: count }, (_, j) => j).filter((j) => j !== i);
    const nearest = others.reduce((best, j) => (distance(i, j) < distance(i, best) ? j : best));
    if (nearest % 2 === i % 2) nearestOfSameGroup++;
  }
  expect(nearestOfSameGroup / count).toBeGreaterThan(0.95);
});

test("[U9] of many records UMAP arranges a sample, and the others lie among their nearest", {
  timeout: 120_000,
}, () => {
  const random = randomFrom(10);
  const count = 1_000;
  const groups = 4;
  const coordinates = Float32Array.from({ length: count * 2 }, (_, i) => {
    const group = Math.floor(i / 2) % groups;
    return random() + 30 * (i % 2 === 0 ? group % 2 : Math.floor(group / 2));
  });
  let points = new Float32Array(0);
  for (const step of arrange(coordinates, 2, 100_000, () => 0, { all: 900, sample: 400 }))
    points = step.points ?? points;
  expect(points).toHaveLength(2 * count);
  expect(points.every(Number.isFinite)).toBe(true);
  // Records of a group are nearer to the middle of their group than to that of another.
  const middles = Array.from({ length: groups }, (_, group) => {
    const members = Array.from({ length: count }, (_, i) => i).filter((i) => i % groups === group);
    const mean = (offset: number) =>
      members.reduce((sum, i) => sum + points[2 * i + offset], 0) / members.length;
    return [mean(0), mean(1)];
  });
  let own = 0;
  for (let i = 0; i < count; i++) {
    const distances = middles.map(([x, y]) => Math.hypot(points[2 * i] - x, points[2 * i + 1] - y));
    if (distances.indexOf(Math.min(...distances)) === i % groups) own++;
  }
  expect(own / count).toBeGreaterThan(0.9);
});

test("[U9] points have one colour for each frequent value, or a scale of numbers", () => {
  const kinds = colorsOf(5, ["a", "b", "a", undefined, "a"]);
  expect(kinds.legend.map(({ label, count }) => [label, count])).toEqual([
    ["a", 3],
    ["b", 1],
    ["others, or none", 1],
  ]);
  const colorOf = (i: number) => [...kinds.colors.subarray(3 * i, 3 * i + 3)];
  expect(colorOf(0)).toEqual(colorOf(2));
  expect(colorOf(0)).not.toEqual(colorOf(1));
  const numbers = colorsOf(
    50,
    Array.from({ length: 50 }, (_, i) => i),
  );
  expect(numbers.legend.map(({ label }) => label)).toEqual(["0", "12.25", "24.5", "36.75", "49"]);
});

describe("[U10] metrics", () => {
  const page = (requests: number, slow: number) =>
    [
      "# HELP x about",
      `requests_total{route="/a",text="a\\"b,c\\\\"} ${requests}`,
      `requests_total{route="/b"} 1`,
      `seconds_bucket{le="0.1",route="/a"} ${requests - slow}`,
      `seconds_bucket{le="1",route="/a"} ${requests}`,
      `seconds_bucket{le="+Inf",route="/a"} ${requests}`,
    ].join("\n");

  test("are read with their labels", () => {
    expect(parseMetrics(page(3, 0))[0]).toEqual({
      name: "requests_total",
      labels: { route: "/a", text: 'a"b,c\\' },
      value: 3,
    });
    expect(
      parseMetrics("a +Inf\nb NaN 1700000000\nc -1.5e-3\nnot a sample\n# d 1").map(({ value }) => value),
    ).toEqual([Number.POSITIVE_INFINITY, Number.NaN, -0.0015]);
  });

  test("give rates and quantiles between two readings", () => {
    const [before, after] = [new Reading(page(10, 0), 1_000), new Reading(page(30, 10), 3_000)];
    expect(rate(before, after, "requests_total")).toBe(10);
    expect(rate(after, before, "requests_total")).toBe(0);
    expect(quantile(before, after, "seconds", 0.25)).toBeCloseTo(0.05);
    expect(quantile(before, after, "seconds", 0.75)).toBeCloseTo(0.1 + 0.9 / 2);
    expect(quantile(before, before, "seconds", 0.5)).toBeUndefined();
  });

  test("[U10] of an hour are as dense as they are needed, and never closer than a second", () => {
    const times = [0, 30_000, 60_000];
    const hour = readingsOf(
      {
        times,
        series: [
          { name: "a", labels: { route: "x" }, values: [null, 1, 5] },
          { name: "a", labels: { route: "y" }, values: [2, 2, 2] },
        ],
      },
      1_000_000,
    );
    expect(hour.map(({ atMs }) => atMs)).toEqual([940_000, 970_000, 1_000_000]);
    expect(hour.map((reading) => reading.sum("a"))).toEqual([2, 3, 7]);
    expect(rate(hour[1], hour[2], "a", ({ route }) => route === "x")).toBeCloseTo(4 / 30);
    let readings = hour;
    for (let ms = 1_000_010; ms < 6_000_000; ms += 2_000)
      readings = withReading(readings, new Reading([], ms));
    // The reading that the hour ends with was 10 ms old.
    expect(readings.some(({ atMs }) => atMs === 1_000_000)).toBe(false);
    const ages = readings.map(({ atMs }) => (readings.at(-1)?.atMs ?? 0) - atMs);
    expect(ages.filter((age) => age <= 300_000)).toHaveLength(151);
    expect(ages.filter((age) => age > 300_000).length).toBeLessThan(140);
    expect(Math.max(...ages)).toBeGreaterThan(3_500_000);
    expect(Math.max(...ages)).toBeLessThanOrEqual(3_600_000);
  });
});

describe("[U10] an operation", () => {
  const schema = {
    type: "object",
    required: ["name", "size"],
    properties: {
      name: { type: "string" },
      size: { type: "integer", minimum: 3 },
      kind: { type: "string", enum: ["a"] },
    },
  };
  const [operation] = operationsOf({
    paths: {
      "/things/{id}": {
        post: {
          summary: "Make",
          tags: ["Things"],
          parameters: [
            { name: "id", in: "path", required: true },
            { name: "limit", in: "query" },
          ],
          requestBody: { content: { "application/json": { schema } } },
        },
      },
    },
  });

  test("has an example of its body, and an address made of its parameters", () => {
    expect(JSON.parse(operation.body ?? "")).toEqual({ name: "text", size: 3 });
    expect(addressOf(operation, { id: "a/b ä", limit: "2" })).toBe("/things/a%2Fb%20%C3%A4?limit=2");
    expect(addressOf(operation, { id: "a", limit: "" })).toBe("/things/a");
    expect(exampleOf({ examples: [{ a: 1 }], type: "object" })).toEqual({ a: 1 });
    expect(exampleOf({ anyOf: [{ type: ["null", "string"] }] })).toBeNull();
  });
});

test("[U8] JSON is shown with the numbers that were sent", () => {
  const json =
    '{"id":"a,}","metadata":{"n":9007199254740993,"x":[1e999,{"metadata":null},[],{}],"s":"q\\"{"},"text":null}';
  const metadata = memberOf(json, "metadata") ?? "";
  expect(metadata).toBe('{"n":9007199254740993,"x":[1e999,{"metadata":null},[],{}],"s":"q\\"{"}');
  expect(indented(metadata)).toBe(
    '{\n  "n": 9007199254740993,\n  "x": [\n    1e999,\n    {\n      "metadata": null\n    },\n    [],\n    {}\n  ],\n  "s": "q\\"{"\n}',
  );
  expect(memberOf(json, "text")).toBe("null");
  expect(memberOf(json, "n")).toBeUndefined();
  for (const value of [{ a: [1, { b: "c" }] }, [[]], "text", 3, { "": {} }])
    expect(indented(JSON.stringify(value))).toBe(JSON.stringify(value, null, 2));
  expect(indented('{"a":1}\n{"a":2}')).toBe('{"a":1}\n{"a":2}');
});

test("[U7] what is written into a field is read, or it is said what is wrong", () => {
  expect(parseVector(" [1, -2.5e-1\n3] ")).toEqual([1, -0.25, 3]);
  expect(() => parseVector("1 x")).toThrow('Number 2 of the vector is "x"');
  expect(() => parseVector("")).toThrow("Write the numbers");
  expect(parseTerms("17:0.8, 4021:-3")).toEqual([
    [17, 0.8],
    [4021, -3],
  ]);
  expect(() => parseTerms("17")).toThrow("expected index:value");
  expect(parseFilter(" ")).toBeUndefined();
  expect(parseFilter('{"a": 1}')).toEqual({ a: 1 });
  expect(() => parseFilter("{")).toThrow("not JSON");
  expect(parseFilter(" a = 1")).toEqual({ field: "a", eq: 1 });
  expect(() => parseFilter("a = b")).toThrow(
    "expected a value: a number, true, false, or a text in quotes such as 'red', at character 5:",
  );
  expect(narrowed("", "a b", "it's")).toBe('`a b` = "it\'s"');
  expect(narrowed("a = 1 or b = 2", "c", true)).toBe("(a = 1 or b = 2) and c = true");
});

test("[U6] the address of a page survives every name of a collection", () => {
  for (const name of ["a", "a b", "ü+&=%", "%41", "a'b\"c"]) {
    const { path, query } = parseRoute(hrefOf(["collections", name, "records"], { id: name }));
    expect(path).toEqual(["collections", name, "records"]);
    expect(query.get("id")).toBe(name);
  }
  expect(parseRoute("#/%zz").path).toEqual(["%zz"]);
});
