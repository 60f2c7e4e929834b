// Who reads a collection, or the files of snapshots, while they are served?
//
// This thread: it reads the store's file by itself, as `quiver check` does, while whoever has started it holds a snapshot, so that no
// page of the state that is read is used again. It ends with its answer.

import "../../runtime/node-host.ts";
import { parentPort, workerData } from "node:worker_threads";
import { invariant } from "../../base/invariant.ts";
import type { CheckReply, CheckStart } from "./check-messages.ts";
import { checkCollection } from "./collection-check.ts";
import { Report } from "./report.ts";
import { checkSnapshots } from "./snapshots.ts";

const port = parentPort;
invariant(port !== null, "a check is not a worker thread");
const start = workerData as CheckStart;

let reply: CheckReply;
try {
  const report = new Report();
  if (start.kind === "snapshots") checkSnapshots(start.dataDir, report, start);
  else await checkCollection({ ...start, name: start.definition.name }, report);
  reply = { ok: true, report: report.toShape() };
} catch (error) {
  reply = { ok: false, message: (error as Error).stack ?? String(error) };
}
port.postMessage(reply);
