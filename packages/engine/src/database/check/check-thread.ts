// How does a check read a collection, or the files of snapshots, while the database serves them?
//
// In this thread. It reads the store's file without LMDB, as `quiver check` does. The thread that started it holds a read transaction
// meanwhile, so that LMDB does not reuse the pages of the state that is being read.

import "../../process/node-host.ts";
import { parentPort } from "node:worker_threads";
import { invariant } from "../../base/invariant.ts";
import { Calls } from "../../runtime/calls.ts";
import { checkSnapshots } from "../snapshots/snapshot-check.ts";
import { checkCollection, Report } from "./collection-check.ts";
import type { CheckStart } from "./live.ts";

invariant(parentPort !== null, "a check is not a worker thread");

new Calls(parentPort, {
  async check(start: CheckStart) {
    const report = new Report();
    if (start.kind === "snapshots") checkSnapshots(start.dataDir, report, start);
    else await checkCollection({ ...start, name: start.definition.name }, report);
    return report.toShape();
  },
});
