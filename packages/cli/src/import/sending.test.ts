import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { QuiverError } from "@quiverdb/client";
import type { ItemChunk } from "@quiverdb/import/files/inputs";
import type { Item } from "@quiverdb/import/files/item";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packBatches } from "./batches.ts";
import { sendIsolating } from "./isolate.ts";
import { Rate, showProgress } from "./progress.ts";
import { Rejects } from "./rejects.ts";
import { describeReport, type ImportReport } from "./run.ts";
import { deleteState, difference, emptyState, type ImportIdentity, loadState, saveState } from "./state.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "quiver-sending-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const items = (count: number): Item[] =>
  Array.from({ length: count }, (_, i) => ({
    number: i + 1,
    end: (i + 1) * 10,
    json: `{"id":"${i}"}`,
    id: String(i),
  }));

describe("isolating records that the server rejects", () => {
  /** A server that accepts or rejects a request as a whole, and may name the first bad record. */
  const picky = (bad: ReadonlySet<number>, namesPosition: (index: number) => boolean) => {
    const taken: number[] = [];
    let requests = 0;
    const send = async (records: readonly Item[]) => {
      requests++;
      expect(records.length).toBeGreaterThan(0);
      const at = records.findIndex(({ number }) => bad.has(number - 1));
      if (at < 0) return taken.push(...records.map(({ number }) => number - 1));
      const details = namesPosition(records[at].number - 1) ? { path: `vectors[${at}].text` } : {};
      const place = details.path ?? "A record";
      throw new QuiverError("invalid_vector", `${place} is bad.`, details);
    };
    return { send, taken, requests: () => requests };
  };

  it("stores every good record exactly once and in order, whichever records are bad or named", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: 60 }),
        fc.uniqueArray(fc.integer({ min: 0, max: 59 })),
        fc.uniqueArray(fc.integer({ min: 0, max: 59 })),
        async (count, badOnes, unnamed) => {
          const bad = new Set(badOnes.filter((index) => index < count));
          const server = picky(bad, (index) => !unnamed.includes(index));
          const rejected = await sendIsolating(items(count), server.send);
          const all = Array.from({ length: count }, (_, i) => i);
          expect(server.taken).toEqual(all.filter((index) => !bad.has(index)));
          expect(rejected.map(({ item }) => item.number - 1)).toEqual(all.filter((index) => bad.has(index)));
          for (const { code } of rejected) expect(code).toBe("invalid_vector");
        },
      ),
      { numRuns: 500 },
    );
  });

  it("costs two more requests for a named record", async () => {
    const server = picky(new Set([400]), () => true);
    const [rejected] = await sendIsolating(items(1_000), server.send);
    expect(rejected.reason).toBe("text is bad.");
    expect(server.requests()).toBe(3);
  });

  it("names a field as the file of the record does", async () => {
    const server = picky(new Set([1]), () => true);
    const [first, second] = items(2);
    const [rejected] = await sendIsolating([first, { ...second, names: { text: "about" } }], server.send);
    expect(rejected.reason).toBe("about is bad.");
  });

  it("costs about one request per line if everything is bad", async () => {
    const server = picky(new Set(Array.from({ length: 1_000 }, (_, i) => i)), () => true);
    await sendIsolating(items(1_000), server.send);
    expect(server.requests()).toBe(1_000);
  });

  it("stops when there are too many", async () => {
    const server = picky(new Set(Array.from({ length: 100 }, (_, i) => i)), () => true);
    const rejected = await sendIsolating(items(100), server.send, (so_far) => so_far.length > 5);
    expect(rejected).toHaveLength(6);
  });

  it.each(["connection_failed", "collection_not_found", "max_vectors_exceeded", "internal"] as const)(
    "leaves %s to the caller",
    async (code) => {
      const send = async () => {
        throw new QuiverError(code, "vectors[0] no");
      };
      await expect(sendIsolating(items(3), send)).rejects.toMatchObject({ code });
    },
  );
});

describe("batches", () => {
  async function* chunksOf(
    all: readonly Item[],
    sizes: readonly number[],
    file: number,
  ): AsyncGenerator<ItemChunk> {
    for (let at = 0, i = 0; at < all.length; i++) {
      const size = sizes[i % sizes.length];
      yield { file, items: all.slice(at, at + size), bytesRead: at + size };
      at += size;
    }
  }

  it("contain every item once and end after their last one, within both bounds", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ bytes: fc.integer({ min: 2, max: 60 }), bad: fc.boolean() }), { maxLength: 50 }),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 20, max: 200 }),
        async (given, sizes, recordsMax, bytesMax) => {
          const all: Item[] = given.map(({ bytes, bad }, i) => ({
            number: i + 1,
            end: i + 1,
            json: "x".repeat(bytes),
            id: String(i),
            problem: bad ? { code: "c", reason: "r" } : undefined,
          }));
          const seen: number[] = [];
          let end = 0;
          for await (const batch of packBatches(chunksOf(all, sizes, 0), { recordsMax, bytesMax })) {
            const own = [...batch.records, ...batch.problems]
              .map(({ number }) => number)
              .sort((a, b) => a - b);
            seen.push(...own);
            expect(batch.end.number).toBe(own.at(-1));
            expect(own[0]).toBe(end + 1);
            end = batch.end.number;
            expect(batch.records.length).toBeLessThanOrEqual(recordsMax);
            const bytes = batch.records.reduce((sum, { json }) => sum + json.length + 1, 16);
            if (batch.records.length > 1) expect(bytes).toBeLessThanOrEqual(bytesMax);
          }
          expect(seen).toEqual(all.map(({ number }) => number));
        },
      ),
      { numRuns: 300 },
    );
  });

  it("never span two files", async () => {
    async function* both() {
      yield* chunksOf(items(3), [2], 0);
      yield* chunksOf(items(2), [2], 1);
    }
    const found: unknown[] = [];
    for await (const { file, records, end } of packBatches(both(), { recordsMax: 10, bytesMax: 1_000 })) {
      found.push([file, records.length, end]);
    }
    expect(found).toEqual([
      [0, 3, { file: 0, offset: 30, number: 3 }],
      [1, 2, { file: 1, offset: 20, number: 2 }],
    ]);
  });
});

describe("the state", () => {
  const file = { path: "a.jsonl", size: 1, mtimeMs: 2, hash: "h" };
  const identity: ImportIdentity = {
    url: "http://h/",
    collection: "c",
    mode: "streaming",
    files: [file],
    idsFile: null,
    options: { format: null },
  };

  it("is read back as it was written and leaves nothing when it is deleted", () => {
    const path = join(folder, "a.quiver-import.json");
    const state = { ...emptyState(identity), acknowledged: 7, version: { number: 3, hash: "v" } };
    saveState(path, state);
    expect(loadState(path)).toMatchObject({ ...state, updatedAt: expect.any(String) });
    deleteState(path);
    expect(loadState(path)).toBeUndefined();
    expect(readdirSync(folder)).toEqual([]);
  });

  it("that is damaged or of another format is ignored", () => {
    const path = join(folder, "b.quiver-import.json");
    for (const content of ["", "{", "null", '{"format":99}']) {
      writeFileSync(path, content);
      expect(loadState(path)).toBeUndefined();
    }
    rmSync(path);
  });

  it("belongs to the same import only if everything relevant is the same", () => {
    expect(difference(identity, structuredClone(identity))).toBeUndefined();
    const changes: [Partial<ImportIdentity>, RegExp][] = [
      [{ url: "http://other/" }, /used the server/],
      [{ collection: "d" }, /collection "c"/],
      [{ mode: "transaction" }, /streaming import/],
      [{ files: [{ ...file, path: "b.jsonl" }] }, /it read a\.jsonl/],
      [{ files: [{ ...file, mtimeMs: 9 }] }, /a\.jsonl has changed/],
      [{ idsFile: file }, /ids file/],
      [{ options: { format: "jsonl" } }, /different options/],
    ];
    for (const [change, words] of changes)
      expect(difference(identity, { ...identity, ...change })).toMatch(words);
  });
});

it("rejected lines are reported once, and saved with their record and reason", () => {
  const said: string[] = [];
  const path = join(folder, "rejects.jsonl");
  const rejects = new Rejects(path, false, (line) => said.push(line));
  const [good] = items(1);
  const raw: Item = {
    number: 2,
    end: 0,
    json: '{"id":',
    id: undefined,
    problem: { code: "invalid_json", reason: "x" },
  };
  const input = { path: "f.jsonl", unit: "line" } as const;
  rejects.add(input, [
    { item: good, code: "invalid_vector", reason: "dense_values is missing" },
    { item: raw, code: "invalid_json", reason: "is not JSON" },
  ]);
  for (let i = 0; i < 30; i++) rejects.add(input, [{ item: good, code: "c", reason: "r" }]);
  expect(said[0]).toBe("f.jsonl:1: rejected (invalid_vector): dense_values is missing");
  expect(said).toHaveLength(21);
  expect(said[20]).toContain("--rejects");
  const lines = readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines).toHaveLength(32);
  expect(lines[0]).toMatchObject({ file: "f.jsonl", line: 1, record: { id: "0" } });
  expect(lines[1]).toMatchObject({ line: 2, raw: '{"id":' });
});

describe("progress", () => {
  it("has the rate of the last seconds and the remaining time", () => {
    let now = 0;
    const rate = new Rate({ bytes: 0, records: 0 }, () => now);
    for (let second = 1; second <= 40; second++) {
      now = second * 1000;
      // Fast at first, then 100 records and 1,000 bytes a second.
      rate.add(
        second <= 10
          ? { bytes: second * 50_000, records: second * 5_000 }
          : { bytes: 500_000 + (second - 10) * 1_000, records: 50_000 + (second - 10) * 100 },
      );
    }
    expect(rate.recordsPerSecond).toBeCloseTo(100, 0);
    expect(rate.left(530_000 + 60_000)).toBe("1m 00s left");
  });

  it("is an occasional line without a terminal, and nothing with --quiet", () => {
    const written: string[] = [];
    const stream = { write: (text: string) => written.push(text) } as unknown as NodeJS.WriteStream;
    let now = 0;
    const options = { totalBytes: 100, start: { bytes: 0, records: 0 }, stream, now: () => now };
    const loud = showProgress({ ...options, quiet: false });
    for (now = 0; now <= 20_000; now += 500) loud.update({ bytes: now / 400, records: now });
    expect(written).toHaveLength(4);
    expect(written[0]).toMatch(/^5,000 records, 1,000\/s, read 12\.5 B of 100 B, \d+\.\d s left\n$/);
    expect(written.join("")).not.toContain("\u001b");
    const inRecords = showProgress({ ...options, inRecords: true, quiet: false });
    now += 5_000;
    inRecords.update({ bytes: 50, records: 50 });
    expect(written.pop()).toMatch(/^50 records, 10\/s, read 50 of 100, 5\.0 s left\n$/);
    const quiet = showProgress({ ...options, quiet: true });
    quiet.update({ bytes: 100, records: 1 });
    expect(written).toHaveLength(4);
  });
});

it("the report of an interrupted import names the command that resumes it", () => {
  const report: ImportReport = {
    collection: "docs",
    files: [],
    mode: "streaming",
    outcome: "interrupted",
    records: 10,
    records_this_run: 10,
    rejected: 0,
    rejected_lines: [],
    records_with_ignored_fields: 0,
    ignored_fields: [],
    resumed: false,
    seconds: 1,
    records_per_second: 10,
    transaction_id: null,
    state_file: "progress.json",
    resume_after: "line 10 of docs.jsonl",
    exit_code: 130,
  };
  const wayOn = (resume: boolean) => describeReport(report, { resume }).split("\n")[1];
  expect(wayOn(true)).toBe(
    "Run the same command again to resume after line 10 of docs.jsonl; the progress is saved in progress.json.",
  );
  expect(wayOn(false)).toContain("without --no-resume again to resume");
});
