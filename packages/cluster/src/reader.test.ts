// Who waits for a position that does not come?

import { expect, test } from "vitest";
import type { Connection } from "./connection.ts";
import { StreamReader } from "./reader.ts";

const quiet = { info() {}, warn() {}, error() {}, debug() {} };

test("[Y5] those who wait are told when the node stops, so that it can stop", async () => {
  // A server that never answers.
  const info = () => Promise.reject(new Error("timeout"));
  const connection = { manager: { streams: { info } } } as unknown as Connection;
  const reader = new StreamReader(
    connection,
    "stream",
    3,
    async () => {},
    (first) => first,
    quiet,
  );
  reader.start();
  expect(reader.reached(3)).toBe(undefined);
  const waiting = reader.reached(4);
  const stopped = reader.stop();
  await expect(waiting).rejects.toMatchObject({ code: "shutting_down" });
  await expect(reader.reached(4)).rejects.toMatchObject({ code: "shutting_down" });
  await stopped;
});
