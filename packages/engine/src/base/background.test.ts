import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Background } from "./background.ts";

let told: string[];
let background: Background;
beforeEach(() => {
  told = [];
  background = new Background({
    onFailed: ({ task, attempts, error }) => told.push(`${task} ${attempts} ${(error as Error).message}`),
    onRecovered: (task) => told.push(`${task} done`),
  });
});
afterEach(() => background.stop());

const until = async (isSo: () => boolean): Promise<void> => {
  while (!isSo()) await sleep(1);
};

/** Fails the given number of times, then succeeds. */
function failing(times: number, how: "throws" | "rejects", message = () => "no") {
  let calls = 0;
  const act = () => {
    if (++calls > times) return undefined;
    if (how === "throws") throw new Error(message());
    return Promise.reject(new Error(message()));
  };
  return { act, calls: () => calls };
}

describe("[K2] a task that fails", () => {
  it.each(["throws", "rejects"] as const)(
    "and %s is reported once, listed, and retried until it succeeds",
    async (how) => {
      const { act, calls } = failing(3, how);
      background.run("t", act);
      await until(() => background.failing[0]?.attempts === 2);
      expect(background.failing).toMatchObject([{ task: "t", attempts: 2 }]);
      await until(() => background.failing.length === 0);
      expect(calls()).toBe(4);
      expect(told).toEqual(["t 1 no", "t done"]);
    },
  );

  it("in another way is reported again", async () => {
    let n = 0;
    background.run("t", failing(2, "throws", () => `no ${++n}`).act);
    await until(() => told.includes("t done"));
    expect(told).toEqual(["t 1 no 1", "t 2 no 2", "t done"]);
  });

  it("runs only the latest request, and only once", async () => {
    const first = failing(1, "throws");
    const asked: string[] = [];
    background.run("t", first.act);
    background.run("t", () => asked.push("second"));
    background.run("t", () => asked.push("third"));
    await until(() => told.includes("t done"));
    expect(asked).toEqual(["third"]);
    expect(first.calls()).toBe(1);
  });

  it("and is requested during a retry runs once more", async () => {
    const asked: string[] = [];
    const first = failing(1, "rejects");
    let letGo = () => {};
    background.run("t", async () => {
      await first.act();
      await new Promise<void>((resolve) => {
        letGo = resolve;
      });
    });
    await until(() => first.calls() === 2);
    background.run("t", () => asked.push("asked"));
    expect(asked).toEqual([]);
    letGo();
    await until(() => told.includes("t done"));
    expect(asked).toEqual(["asked"]);
  });

  it("is tried at once when it is known to succeed, and not at all when it is forgotten or the owner has stopped", async () => {
    const { act, calls } = failing(1, "throws");
    background.run("t", act);
    background.succeeded("t");
    expect(calls()).toBe(2);
    const forgotten = failing(1, "throws");
    background.run("u", forgotten.act);
    background.forget("u");
    const stopped = failing(1, "rejects");
    background.run("v", stopped.act);
    await sleep(1);
    background.stop();
    expect(background.failing).toEqual([]);
    await sleep(250);
    expect([forgotten.calls(), stopped.calls()]).toEqual([1, 1]);
  });

  it("after a time runs once and is retried, and does not run after the stop", async () => {
    const { act, calls } = failing(1, "rejects");
    background.after("t", 1, act);
    expect(calls()).toBe(0);
    await until(() => told.includes("t done"));
    expect(calls()).toBe(2);
    background.after("u", 1, act);
    background.stop();
    await sleep(50);
    expect(calls()).toBe(2);
  });

  it("repeatedly continues after a success, and survives a listener that fails, too", async () => {
    const deaf = new Background({
      onFailed: () => {
        throw new Error("the log is gone");
      },
      onRecovered: () => {},
    });
    const { act, calls } = failing(1, "throws");
    const stop = deaf.every("t", 1, act);
    await until(() => calls() > 3);
    stop();
    expect(deaf.failing).toEqual([]);
    deaf.once("u", () => Promise.reject(new Error("no")));
    deaf.once("u", failing(1, "throws").act);
    deaf.stop();
  });
});

describe("[K2] the engine's sources", () => {
  const engine = resolve(import.meta.dirname, "..");
  const files = readdirSync(engine, { recursive: true, encoding: "utf8" }).filter(
    (file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && !file.includes("testing/"),
  );
  /** A dropped promise, or a repeating timer. */
  const ownerless = /\bvoid [\w#]+[\w#.?]*\(|\bsetInterval\(|\.finally\([^)]*\);/;
  /** The exceptions, with their reasons. */
  const allowed: Record<string, string> = {
    "base/background.ts": "it is the owner",
    "runtime/builder-thread.ts": "collecting garbage does not fail",
    "process/collect-garbage.ts": "collecting garbage does not fail",
    "runtime/calls.ts": "what a handler throws is posted to the caller, and rejects its promise",
    "database/memory-balance.ts": "an empty interval keeps the process alive while memory is freed",
  };

  it("give an owner to all work that no caller awaits", () => {
    expect(files.length).toBeGreaterThan(100);
    const found = files.flatMap((file) =>
      readFileSync(join(engine, file), "utf8")
        .split("\n")
        .flatMap((line, i) =>
          ownerless.test(line) && !(file in allowed) ? [`${file}:${i + 1} ${line.trim()}`] : [],
        ),
    );
    expect(found).toEqual([]);
  });
});
