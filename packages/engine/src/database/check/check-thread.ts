// How does a check read a collection, or the files of snapshots, while the database serves them?
//
// In this thread. It reads the store's file without LMDB, as `quiver check` does. The thread that started it holds a read transaction
// meanwhile, so that LMDB does not reuse the pages of the state that is being read. The thread ends when it has posted its reply.

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
