// A thread that compares queries with rows of a flat index of another, and looks whether every distance is right.

import { parentPort, workerData } from "node:worker_threads";
import "../../../runtime/node-host.ts";
import { randomNumbers } from "@quiverdb/kernels/random";
import { metrics } from "../../../vector/metrics.ts";
import { type AttachableRows, AttachedRows } from "../attached-rows.ts";

export const dimension = 24;
export const ordinalCount = 3_000;

/** The vector of an ordinal: every value tells which ordinal it is of. */
export const vectorOf = (ordinal: number): Float32Array =>
  Float32Array.from({ length: dimension }, (_, i) => (ordinal + 1) * (i + 1));

export type Report = { readonly right: number; readonly absent: number; readonly wrong: readonly string[] };

/** What a thread is given to be this one; tests import this file, too. */
export const isReader = "reads rows";

const port = parentPort;
if (port !== null && workerData === isReader) {
  const random = randomNumbers(7);
  const query = vectorOf(11);
  const ordinals = new Uint32Array(200);
  const distances = new Float64Array(ordinals.length);
  const metric = metrics.euclidean;
  const distanceTo = metric.exactDistance(query);
  const expected = Float64Array.from({ length: ordinalCount }, (_, ordinal) =>
    distanceTo(vectorOf(ordinal), 0),
  );
  let rows: AttachedRows | undefined;
  let isOver = false;
  let turns = 0;
  const report = { right: 0, absent: 0, wrong: [] as string[] };
  port.on("message", (message: AttachableRows | "over") => {
    if (message === "over") isOver = true;
    else rows = new AttachedRows(metric, message, 1);
  });
  const turn = () => {
    if (isOver) {
      port.postMessage(report satisfies Report);
      port.close();
      return;
    }
    for (let i = 0; i < ordinals.length; i++) ordinals[i] = Math.floor(random() * ordinalCount);
    rows?.distancesOf(query, ordinals, ordinals.length, distances);
    if (rows !== undefined)
      for (const [i, ordinal] of ordinals.entries()) {
        if (Number.isNaN(distances[i])) report.absent++;
        else if (distances[i] === expected[ordinal]) report.right++;
        else report.wrong.push(`ordinal ${ordinal}: ${distances[i]} instead of ${expected[ordinal]}`);
      }
    if (++turns % 20 === 0) port.postMessage(report satisfies Report);
    setImmediate(turn);
  };
  turn();
}
