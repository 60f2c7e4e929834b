// Whom does a node take for dead, and what does its own silence say?

import { PassThrough } from "node:stream";
import { setImmediate } from "node:timers/promises";
import type { KV } from "@nats-io/kv";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { aliveMs } from "./connection.ts";
import { type Member, Members, requireUnused } from "./members.ts";

const member = (node: string) => ({ node }) as Member;

let words: PassThrough;
let members: Members;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["performance", "setInterval"] });
  words = new PassThrough({ objectMode: true });
  const watch = Object.assign(words, { stop: () => undefined });
  const bucket = { watch: async () => watch, put: async () => 1, delete: async () => undefined };
  const log = { warn: () => undefined } as never;
  members = new Members(
    bucket as never as KV,
    () => member("own"),
    () => undefined,
    log,
  );
  await members.start();
});
afterEach(async () => {
  await members.stop();
  vi.useRealTimers();
});

const tell = async (...nodes: string[]) => {
  for (const key of nodes)
    words.write({ key, operation: "PUT", value: Buffer.from(JSON.stringify(member(key))) });
  for (let i = 0; i < 10; i++) await setImmediate();
};
const living = () => members.living().map(({ node }) => node);

test("a node that tells nothing while others do is not alive", async () => {
  await tell("own", "n2", "n3");
  expect(living()).toEqual(["n2", "n3"]);
  vi.advanceTimersByTime(aliveMs - 1);
  await tell("own", "n2");
  expect(living()).toEqual(["n2", "n3"]);
  vi.advanceTimersByTime(1);
  await tell("own", "n2");
  expect(living()).toEqual(["n2"]);
});

test("[Y17] a node that was paused, or is cut off, takes nobody for dead", async () => {
  await tell("own", "n2", "n3");
  vi.advanceTimersByTime(10 * aliveMs);
  expect(living()).toEqual(["n2", "n3"]);
  // What came meanwhile is read in one go.
  await tell("n2", "n2", "n3");
  expect(living()).toEqual(["n2", "n3"]);
});

describe("[Y3] a name", () => {
  /** A bucket that answers one after the other. */
  const answering = (...answers: (null | Error | [url: string, revision: number])[]) =>
    ({
      get: async () => {
        const answer = answers.length > 1 ? answers.shift() : answers[0];
        if (answer instanceof Error) throw answer;
        if (answer == null) return null;
        const [url, revision] = answer;
        return { operation: "PUT", revision, json: () => ({ url }) };
      },
    }) as never;
  const busy = new Error("no responders");

  beforeEach(() => {
    vi.useRealTimers();
  });

  test("is free where nobody tells of it, or its own address, however late the servers answer", async () => {
    await requireUnused(answering(busy, busy, null), "n1", "here");
    await requireUnused(answering(busy, ["here", 4]), "n1", "here");
  });

  test("is free when what was told of it has expired", async () => {
    await requireUnused(answering(["there", 4], ["there", 4], null), "n1", "here");
  });

  test("is refused when it is told anew from elsewhere", async () => {
    const used = requireUnused(answering(["there", 4], ["there", 4], ["there", 5]), "n1", "here");
    await expect(used).rejects.toMatchObject({
      code: "data_directory_foreign",
      details: { node: "n1", url: "there" },
    });
  });
});
