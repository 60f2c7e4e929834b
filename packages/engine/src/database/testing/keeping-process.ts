// A process that replaces vectors and has its dense index kept on disk, again and again, and says on standard output what was
// acknowledged. Killed by keeping-kill.test.ts.
//
// argv: data directory, number of the first round. Each round replaces a tenth of 3,000 vectors, "round N" follows; meanwhile
// the collection is unloaded, which keeps the index, and loaded.

import { writeSync } from "node:fs";
import { openDatabase } from "../database.ts";
import { vectorOf } from "./kept-vectors.ts";

const [dataDir, first] = process.argv.slice(2);
const database = await openDatabase({ dataDir });
const collection = database.collection("c");
async function keep(): Promise<never> {
  for (;;) {
    await collection.load();
    await collection.unload();
  }
}
void keep();
for (let round = Number(first); ; round++) {
  const part = round % 10;
  const batch = Array.from({ length: 300 }, (_, i) => ({
    id: `v${part * 300 + i}`,
    dense_values: vectorOf(part * 300 + i, round),
  }));
  await collection.upsert(batch);
  writeSync(1, `round ${round}\n`);
}
