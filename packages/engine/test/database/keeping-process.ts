// A process that repeatedly replaces vectors and writes checkpoints of its dense index, and prints what was acknowledged to standard
// output. keeping-kill.test.ts kills it.
//
// argv: data directory, number of the first round. Each round replaces a tenth of 3,000 vectors, "round N" follows; meanwhile the
// collection is unloaded, which writes the checkpoint, and loaded.

import { writeSync } from "node:fs";
import { openDatabase } from "../../src/database/database.ts";
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
