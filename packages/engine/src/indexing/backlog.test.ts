import { limits } from "@quiverdb/protocol/limits";
import { expect, it } from "vitest";
import { loudBackground } from "../../test/base/loud-background.ts";
import { Deadline } from "../base/deadline.ts";
import { Backlog, type Standing } from "./backlog.ts";

/** The state of a promise, some event loop iterations later. */
async function fateOf(promise: Promise<void> | undefined): Promise<string> {
  if (promise === undefined) return "at once";
  const told = promise.then(
    () => "admitted",
    (error: { code?: string; message: string }) => error.code ?? error.message,
  );
  const wait = new Promise<string>((resolve) => setTimeout(() => resolve("waits"), 200));
  return Promise.race([told, wait]);
}

it("[O6] below the limit writes continue; above it they are admitted at less than the indexing rate", async () => {
  const standing = { taken: 0, committed: 100, limit: 100 };
  const backlog = new Backlog(() => standing, loudBackground());
  expect(await fateOf(backlog.admit(10, Deadline.none))).toBe("at once");
  standing.committed = 201;
  const [first, second] = [backlog.admit(50, Deadline.none), backlog.admit(50, Deadline.none)];
  expect(await fateOf(first)).toBe("waits");
  standing.taken = 40;
  expect(await fateOf(first)).toBe("admitted");
  // The second write pays for what the first has used in advance.
  expect(await fateOf(second)).toBe("waits");
  let [admitted, ended] = [0, false];
  void second?.then(() => {
    ended = true;
  });
  while (!ended && admitted++ < 100) {
    standing.taken += 1;
    standing.committed += 1;
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  expect(ended).toBe(true);
  expect(admitted).toBeGreaterThanOrEqual(
    Math.floor((50 - 40 * limits.indexBacklogShare) / limits.indexBacklogShare),
  );
  expect(backlog.waiting).toBe(0);
});

it("[O6] over many writes the backlog shrinks to its limit, whatever the load", async () => {
  const standing = { taken: 0, committed: 5_000, limit: 1_000 };
  const backlog = new Backlog(() => standing, loudBackground());
  let wanted = true;
  const writer = async () => {
    while (wanted) {
      await backlog.admit(20, Deadline.none);
      standing.committed += 20;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  };
  const writers = Array.from({ length: 8 }, writer);
  let largest = 0;
  for (let i = 0; i < 300 && standing.committed - standing.taken > standing.limit + 160; i++) {
    standing.taken += 200;
    largest = Math.max(largest, standing.committed - standing.taken);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  wanted = false;
  standing.taken = standing.committed;
  await Promise.all(writers);
  expect(largest).toBeLessThanOrEqual(5_000);
  expect(standing.committed).toBeGreaterThan(5_000);
});

it("[O6] too many waiting writes, a deadline and an unload end the wait at once, and leave nothing behind", async () => {
  const standing: Standing = { taken: 0, committed: 1_000, limit: 100 };
  const backlog = new Backlog(() => standing, loudBackground());
  const waiting = Array.from({ length: limits.indexBacklogWaitingMax }, () =>
    backlog.admit(1, Deadline.none),
  );
  const settled = Promise.allSettled(waiting);
  expect(await fateOf(backlog.admit(1, Deadline.none))).toBe("indexing_behind");
  backlog.stop(new Error("unloaded"));
  expect(new Set((await settled).map((result) => result.status))).toEqual(new Set(["rejected"]));
  expect(await fateOf(backlog.admit(1, Deadline.of({ timeoutMs: 20 })))).toBe("deadline_exceeded");
  const gone = new AbortController();
  const left = backlog.admit(1, Deadline.of({ signal: gone.signal }));
  gone.abort(new Error("gone"));
  expect(await fateOf(left)).toBe("gone");
  expect(backlog.waiting).toBe(0);
});
