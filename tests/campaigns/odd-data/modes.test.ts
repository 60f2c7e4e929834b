// Do the modes add and remove records as described, and is every record found on easy data?

import { afterAll, expect, test } from "vitest";
import { Random, rowsOf } from "../../odd-data/random.ts";
import { settings } from "./marks.ts";
import { Crews, modes, play } from "./modes.ts";
import { count } from "./truth.ts";

const crews = new Crews();
afterAll(() => crews.close());

const random = new Random(5);
const rows = rowsOf(1_200, () => random.gaussian(4));
const queries = rowsOf(30, () => random.gaussian(4));
const wanted = {
  dimension: 4,
  metric: "euclidean",
  dataType: "f32",
  settings: settings.compared,
  sampleCount: 300,
} as const;

test.each(modes)("$name", async (mode) => {
  const { subject, living } = await play(mode, wanted, rows, new Random(1), crews);
  try {
    // Half of the removed fifth is added again.
    expect(living.size).toBe(mode.name.startsWith("changed") ? 1_080 : 1_200);
    expect(subject.dataType()).toBe("f32");
    const isChanged = Math.max(...living.keys()) >= rows.length;
    expect(isChanged).toBe(/changed|resumed|engine/.test(mode.name));
    const search = (query: Float32Array, k: number) => subject.search(query, k);
    const counted = await count({ metric: "euclidean", living, search }, queries, 10);
    expect(counted).toMatchObject({ emptyQueries: 0, itselfFirst: 1 });
    expect(counted.recall).toBeGreaterThan(0.99);
  } finally {
    await subject.close();
  }
});

test("each mode is drawn, and none has the name of another", () => {
  expect(new Set(modes.map(({ name }) => name)).size).toBe(modes.length);
  for (const { weight } of modes) expect(weight).toBeGreaterThan(0);
});
