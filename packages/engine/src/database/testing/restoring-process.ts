// A process that restores a snapshot over a collection, again and again, and says on standard output when it begins. Killed by
// snapshots-kill.test.ts.
//
// argv: data directory, number of the first round. In even rounds the collection is made of the first snapshot, in odd ones of
// the second; "round N" follows.

import { writeSync } from "node:fs";
import { openDatabase } from "../database.ts";

const [dataDir, first] = process.argv.slice(2);
const database = await openDatabase({ dataDir });
const { snapshots } = database.snapshots.list("c");
for (let round = Number(first); ; round++) {
  const { id } = snapshots[round % 2];
  await database.restoreCollection("c", { snapshots: [id], overwrite: true });
  writeSync(1, `round ${round}\n`);
}
