// A process that repeatedly restores a snapshot over a collection, and prints the start of each round to standard output.
// snapshots-kill.test.ts kills it.
//
// argv: data directory, number of the first round. In even rounds the collection is restored from the first snapshot, in odd ones from the
// second; "round N" follows.

import { writeSync } from "node:fs";
import { openDatabase } from "../../src/database/database.ts";

const [dataDir, first] = process.argv.slice(2);
const database = await openDatabase({ dataDir });
const { snapshots } = database.snapshots.list("c");
for (let round = Number(first); ; round++) {
  const { id } = snapshots[round % 2];
  await database.restoreCollection("c", { snapshots: [id], overwrite: true });
  writeSync(1, `round ${round}\n`);
}
