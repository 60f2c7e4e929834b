import { Worker } from "node:worker_threads";
import { describe, expect, it } from "vitest";
import { SharedMutex } from "./shared-mutex.ts";

const name = "quiver:test-of-mutexes";
const rounds = 20_000;

/** Adds to a counter in two steps, which lose additions of other threads unless these are excluded. */
const program = `
  import { workerData } from "node:worker_threads";
  const { SharedMutex } = await import(workerData.url);
  const [, mutex] = SharedMutex.ofProcess(workerData.name, 2);
  for (let round = 0; round < workerData.rounds; round++)
    mutex.hold(() => {
      const before = workerData.counter[0];
      for (let wait = 0; wait < 20; wait++) Atomics.load(workerData.counter, 1);
      workerData.counter[0] = before + 1;
    });
`;

describe("a mutex of the process", () => {
  it("lets one thread at a time run an action", async () => {
    const [, mutex] = SharedMutex.ofProcess(name, 2);
    const counter = new Int32Array(new SharedArrayBuffer(8));
    const url = new URL("./shared-mutex.ts", import.meta.url).href;
    const data = { url, name, rounds, counter };
    const ended = [0, 1, 2].map(() => {
      const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(program)}`), {
        workerData: data,
      });
      return new Promise((resolve, reject) => worker.once("exit", resolve).once("error", reject));
    });
    await Promise.all(ended);
    expect(mutex?.hold(() => counter[0])).toBe(3 * rounds);
  });

  it("is free again after an action that throws", () => {
    const mutex = new SharedMutex(new Int32Array(new SharedArrayBuffer(4)), 0);
    expect(() =>
      mutex.hold(() => {
        throw new Error("no");
      }),
    ).toThrow("no");
    expect(mutex.hold(() => mutex.hold(() => 7))).toBe(7);
  });
});
