import { expect, it } from "vitest";
import { MemoryBudget, processBytes, processBytesBeside } from "./memory.ts";

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => "admitted",
    (error: { code: string }) => error.code,
  );

it("[O5] reservations count, memory is freed once, and requests that do not fit are rejected with figures", async () => {
  let indexes = 600;
  const made: boolean[] = [];
  const memory = new MemoryBudget({
    budgetBytes: 1_000,
    indexBytes: () => indexes,
    freeMemory: async (most, isAgain) => {
      made.push(isAgain);
      indexes = Math.min(indexes, Math.max(500, most));
    },
    processBytes: () => 0,
  });
  const done = await memory.admit({ what: "A write", indexBytes: 400 });
  expect(memory.indexBytes).toBe(1_000);
  await expect(memory.admit({ what: "A load", indexBytes: 200 })).rejects.toMatchObject({
    code: "memory_budget_exceeded",
    details: { scope: "process", needed_bytes: 200, budget_bytes: 1_000, index_bytes: 900 },
  });
  // A call shortly after a failed attempt tells `freeMemory` so.
  expect(await codeOf(memory.admit({ what: "A load", indexBytes: 200 }))).toBe("memory_budget_exceeded");
  expect(made).toEqual([false, true]);
  done();
  done();
  memory.changed();
  expect(memory.indexBytes).toBe(500);
  expect(await codeOf(memory.admit({ what: "A load", indexBytes: 200 }))).toBe("admitted");
});

it("[O5] the process as a whole has a limit, too", async () => {
  let process = 0;
  const memory = new MemoryBudget({
    budgetBytes: 1_000,
    indexBytes: () => 0,
    freeMemory: async () => {},
    processBytes: () => process,
  });
  expect(memory.fits({ indexBytes: 500 })).toBe(true);
  process = processBytesBeside + 700;
  await new Promise((resolve) => setTimeout(resolve, 60));
  expect(memory.fits({ indexBytes: 500 })).toBe(false);
  expect(memory.fits({ indexBytes: 100 })).toBe(true);
  expect(memory.fits({ indexBytes: 100, transientBytes: 500 })).toBe(false);
});

it("[O5] memory of the process is its private memory: heaps, buffers and WebAssembly memories", () => {
  const amount = 64 * 1024 * 1024;
  const before = processBytes();
  const buffer = Buffer.alloc(amount, 1);
  const between = processBytes();
  const memory = new WebAssembly.Memory({ initial: amount / 65_536, maximum: amount / 65_536, shared: true });
  new Uint8Array(memory.buffer).fill(1);
  const after = processBytes();
  expect(buffer.length).toBe(amount);
  expect(between - before).toBeGreaterThan(0.9 * amount);
  expect(after - between).toBeGreaterThan(0.9 * amount);
});
