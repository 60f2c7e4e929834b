// Is nothing lost of what comes while a collection is copied?

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { OrderedMessage, Replica } from "@quiverdb/engine/database/replication";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { copiesMax, copyBytesHeader, Healing, secretHeader } from "./healing.ts";
import type { Member } from "./members.ts";

const quiet = { info() {}, warn() {}, error() {}, debug() {} };
const message = (position: number): OrderedMessage => ({ position }) as OrderedMessage;

let server: Server;
/** Called at each request for a copy; the copy is what it returns. */
let copy: () => Promise<string>;
/** Called when the copy's first half is sent; the second is sent when it resolves. */
let half: () => Promise<void>;
/** What another node tells of its logs. */
let logs: readonly number[];
let received: string[];
let applied: number[];
let cannotApply: boolean;
let healing: Healing;
const ids = ["c", "d", "e", "f", "g", "h"];
const entryOf = (internalId: string) => ({ internalId, replicas: ["n1", "n2"] });

beforeEach(async () => {
  [copy, logs, received, applied, cannotApply] = [async () => "state", [100], [], [], false];
  half = async () => {};
  server = createServer(async (request, response) => {
    response.statusCode = request.headers[secretHeader] === "secret" ? 200 : 403;
    const text = await copy();
    response.setHeader(copyBytesHeader, text.length);
    response.write(text.slice(0, text.length / 2));
    await half();
    response.end(text.slice(text.length / 2));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const replica = {
    entries: () => ids.map(entryOf),
    entryById: entryOf,
    serves: () => true,
    receive: async (_: string, body: AsyncIterable<Uint8Array>) => {
      const parts: Uint8Array[] = [];
      for await (const part of body) parts.push(part);
      received.push(Buffer.concat(parts).toString());
    },
  } as unknown as Replica;
  healing = new Healing({
    node: "n1",
    secret: "secret",
    replica,
    living: () => [{ node: "n2", url, broken: {}, logs } as unknown as Member],
    logOf: () => 0,
    positionOf: () => 1,
    onReceived: async (_, messages) => {
      if (cannotApply) throw new Error("the disk fails");
      applied.push(...messages.map(({ position }) => position));
    },
    log: quiet,
  });
});
afterEach(async () => {
  await healing.stop();
  server.close();
});

const isDone = () => vi.waitFor(() => expect(healing.isCopying(0)).toBe(false), 5_000);

test("[Y6] messages that come before, while and after the copy is made are applied behind it, in order", async () => {
  copy = async () => {
    expect(healing.keep("c", [message(7), message(8)])).toBe(true);
    return "state";
  };
  healing.add("c", 5);
  healing.keep("c", [message(6)]);
  await isDone();
  expect(received).toEqual(["state"]);
  expect(applied).toEqual([6, 7, 8]);
  expect(healing.keep("c", [message(9)])).toBe(false);
});

test("[Y6] no copy is taken of a node that has read less than this one", async () => {
  logs = [4];
  healing.add("c", 5);
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  expect(received).toEqual([]);
  expect(healing.broken()).toHaveProperty("c");
  logs = [5];
  await isDone();
  expect(received).toEqual(["state"]);
});

test("[Y6] where more comes than is kept, the copy is made again, of a node that has read all of it", async () => {
  copy = async () => {
    copy = async () => "later state";
    healing.keep(
      "c",
      Array.from({ length: 10_001 }, (_, i) => message(6 + i)),
    );
    logs = [10_006];
    return "state";
  };
  healing.add("c", 5);
  await isDone();
  expect(received).toEqual(["state", "later state"]);
  expect(applied).toEqual([]);
});

test("[Y6] a collection whose kept messages cannot be applied is copied again", async () => {
  cannotApply = true;
  copy = async () => {
    healing.keep("c", [message(6)]);
    return "state";
  };
  healing.add("c", 5);
  await vi.waitFor(() => expect(healing.broken().c).toBe("the disk fails"), 5_000);
  expect(healing.isCopying(0)).toBe(true);
  cannotApply = false;
  await isDone();
  expect(received.length).toBeGreaterThan(1);
});

test("[Y13] some are copied at a time, and how far each is is told", async () => {
  const gate = Promise.withResolvers<void>();
  let [running, most] = [0, 0];
  half = async () => {
    most = Math.max(most, ++running);
    await gate.promise;
    running--;
  };
  copy = async () => "a whole state";
  for (const id of ids) healing.add(id, 5);
  const copying = { from: "n2", bytes: 6, expected: 13 };
  await vi.waitFor(() => {
    expect(Object.values(healing.copying())).toEqual(Array(copiesMax).fill(copying));
    expect(Object.values(healing.broken())).toContain("it is being copied from 'n2'");
  }, 5_000);
  gate.resolve();
  await isDone();
  expect(most).toBe(copiesMax);
  expect(received).toEqual(Array(ids.length).fill("a whole state"));
  expect(healing.copying()).toEqual({});
});
