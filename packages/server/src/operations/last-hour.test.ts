import { expect, test } from "vitest";
import { keptMetrics, LastHour, type Metric } from "./last-hour.ts";

const search = "/vectordb/collections/:collection_id/search/dense";
const requests = "quiver_http_request_duration_seconds";

test("[H21] the last hour has searches by route, all other requests as one, and the largest collections", async () => {
  let now = 0;
  let count = 0;
  const read = async (): Promise<Metric[]> => {
    count++;
    const names = Array.from({ length: 20 }, (_, i) => `c${(i + count) % 40}`);
    const seconds = (route: string, value: number) => ({
      metricName: `${requests}_count`,
      labels: { route, method: "POST" },
      value,
    });
    return [
      { name: requests, values: [seconds(search, count), seconds("/a", 10 * count), seconds("/b", count)] },
      { name: requests, values: [seconds(search, 100)] },
      {
        name: "quiver_collection_records",
        values: names.map((collection, i) => ({ labels: { collection }, value: i })),
      },
      {
        name: "quiver_requests_running",
        values: [
          { labels: { queue: "x" }, value: 2 },
          { labels: { queue: "y" }, value: 3 },
        ],
      },
    ];
  };
  const hour = new LastHour(read, () => now);
  for (; now < 2 * 3_600_000; now += 30_000) await hour.keep();
  const { times, series } = await hour.answer();
  expect(times).toHaveLength(121);
  expect([times[0], times.at(-1)]).toEqual([3_600_000, 7_200_000]);
  for (const { values } of series) expect(values).toHaveLength(121);
  const last = (name: string, labels: object) =>
    series
      .find((each) => each.name === name && JSON.stringify(each.labels) === JSON.stringify(labels))
      ?.values.at(-1);
  expect(last(`${requests}_count`, { route: search })).toBe(241 + 100);
  expect(last(`${requests}_count`, { route: "other" })).toBe(11 * 241);
  expect(last("quiver_requests_running", {})).toBe(5);
  // Each time six of them, and null for those that were among them at another time.
  const ofCollections = series.filter(({ name }) => name === "quiver_collection_records");
  for (const i of times.keys())
    expect(ofCollections.filter(({ values }) => values[i] !== null)).toHaveLength(6);
  expect(ofCollections).toHaveLength(40);
});

test("[H21] the last hour stays bounded, whatever collections come and go", async () => {
  let count = 0;
  const read = async (): Promise<Metric[]> => {
    count += 6;
    const labels = Array.from({ length: 6 }, (_, i) => ({ collection: `c${count + i}` }));
    return [
      { name: "quiver_collection_records", values: labels.map((each) => ({ labels: each, value: 1 })) },
    ];
  };
  const hour = new LastHour(read, () => 0);
  let most = 0;
  for (let i = 0; i < 500; i++) {
    await hour.keep();
    most = Math.max(most, (await hour.answer()).series.length);
  }
  expect(most).toBeGreaterThan(900);
  expect(most).toBeLessThanOrEqual(1_000);
});

test("[H21] reading the last hour begins no metric anew", () => {
  expect(keptMetrics).not.toContain("quiver_slice_longest_seconds");
});
