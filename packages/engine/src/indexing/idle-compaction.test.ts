import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { openDatabase } from "../database/database.ts";
import { PostingIndex } from "../index/inverted/posting-index.ts";
import { IdleCompaction } from "./idle-compaction.ts";

it("a collection is idle after a moment, and rests when nothing has changed for a second, once for each version", () => {
  vi.useFakeTimers();
  try {
    const begun: string[] = [];
    const indexes = [{}];
    let version = 1;
    const rest: IdleCompaction = new IdleCompaction(() => {
      begun.push(rest.leisureAt(version));
      // The slice of an idle collection finds nothing to do.
      if (rest.leisureAt(version) === "idle") rest.idle(version, indexes);
    });
    rest.idle(version, indexes);
    vi.advanceTimersByTime(99);
    expect([rest.leisureAt(1), begun]).toEqual(["busy", []]);
    vi.advanceTimersByTime(801);
    expect([rest.leisureAt(1), begun]).toEqual(["idle", ["idle"]]);
    // A change, after which the collection has nothing to do again.
    version = 2;
    rest.idle(version, indexes);
    vi.advanceTimersByTime(900);
    expect(begun).toEqual(["idle", "idle"]);
    vi.advanceTimersByTime(100);
    expect(begun).toEqual(["idle", "idle", "resting"]);
    expect([rest.leisureAt(1), rest.leisureAt(2), rest.leisureAt(3)]).toEqual(["busy", "resting", "busy"]);
    rest.spent(4);
    rest.idle(version, indexes);
    rest.spent(4, indexes);
    expect(rest.leisureAt(2)).toBe("idle");
    rest.idle(version, indexes);
    vi.advanceTimersByTime(60_000);
    expect(begun.length).toBe(3);
    // An index that was added at the same version is not in order.
    indexes.push({});
    rest.idle(version, indexes);
    vi.advanceTimersByTime(2_000);
    expect([begun.length, rest.leisureAt(2)]).toEqual([4, "resting"]);
    // A change in the middle ends it.
    version = 3;
    expect(rest.leisureAt(3)).toBe("busy");
    rest.idle(version, indexes);
    rest.stop();
    vi.advanceTimersByTime(60_000);
    expect(begun.length).toBe(4);
  } finally {
    vi.useRealTimers();
  }
});

it("small writes with pauses do not pay for a rest each", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  try {
    const begun: number[] = [];
    let version = 0;
    const rest: IdleCompaction = new IdleCompaction(() => {
      if (rest.leisureAt(version) === "resting") begun.push(performance.now());
      else rest.idle(version, []);
    });
    for (; version < 600; version++) {
      rest.idle(version, []);
      vi.advanceTimersByTime(2_000);
      if (rest.leisureAt(version) === "resting") rest.spent(100, []);
    }
    // 20 minutes, and 100 ms each time: a five-hundredth is 24 rests.
    expect(begun.length).toBeGreaterThan(20);
    expect(begun.length).toBeLessThan(26);
  } finally {
    vi.useRealTimers();
  }
});

it("an index that rests has one segment of what fits into one, and finds the same", async () => {
  const tidied = vi.spyOn(PostingIndex.prototype, "tidy");
  const dataDir = mkdtempSync(join(tmpdir(), "quiver-rest-"));
  const database = await openDatabase({ dataDir });
  try {
    await database.createCollection({
      name: "c",
      dense_vector: { enabled: false },
      sparse_vector: { enabled: true, auto_create_index: true },
      tf_idf_options: { enabled: false },
      config: {},
    });
    const collection = database.collection("c");
    const upsert = (first: number, count: number) =>
      collection.upsert(
        Array.from({ length: count }, (_, i) => ({
          id: String(first + i),
          sparse_indices: [(first + i) % 7, 10 + ((first + i) % 97)],
          sparse_values: [1, (first + i) / 20_000],
        })),
      );
    await upsert(0, 10_000);
    await upsert(10_000, 8_000);
    // Too few to be worth a merge with the others at each pause.
    await upsert(18_000, 2_000);
    const query_terms = [3, 5, 11, 54].map((index) => ({ index, value: 1 }));
    const before = await collection.search("sparse", { query_terms, top_k: 50 });
    const { parts } = tidied.mock.contexts[0] as PostingIndex;
    await expect.poll(() => parts.segments.length, { timeout: 20_000 }).toBe(1);
    expect(parts.segments[0].count + parts.bufferedCount).toBe(20_000);
    expect(await collection.search("sparse", { query_terms, top_k: 50 })).toEqual(before);
  } finally {
    tidied.mockRestore();
    await database.close();
    rmSync(dataDir, { recursive: true, force: true });
  }
});
