// Whom does a node take for dead, and what does its own silence say?

import { PassThrough } from "node:stream";
import { setImmediate } from "node:timers/promises";
import type { KV } from "@nats-io/kv";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { aliveMs } from "./connection.ts";
import { type Member, Members } from "./members.ts";

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
