// A process that repeatedly replaces records and writes checkpoints of its inverted indexes, and prints what was acknowledged to standard
// output. keeping-inverted.test.ts kills it.
//
// argv: data directory, number of the first round. Each round replaces a tenth of 12,000 records, "round N" follows; meanwhile the
// collection is unloaded, which writes the checkpoints, and loaded.

import { writeSync } from "node:fs";
import { openDatabase } from "../../src/database/database.ts";
import { sparseOf, textOf } from "./kept-words.ts";

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
  const batch = Array.from({ length: 1_200 }, (_, i) => {
    const record = part * 1_200 + i;
    return { id: `v${record}`, text: textOf(record, round), sparse_values: sparseOf(record, round) };
  });
  await collection.upsert(batch);
  writeSync(1, `round ${round}\n`);
}
