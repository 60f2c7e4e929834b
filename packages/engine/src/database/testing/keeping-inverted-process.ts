// A process that replaces records and has its inverted indexes kept on disk, again and again, and says on standard output what
// was acknowledged. Killed by keeping-inverted.test.ts.
//
// argv: data directory, number of the first round. Each round replaces a tenth of 12,000 records, "round N" follows; meanwhile
// the collection is unloaded, which keeps the indexes, and loaded.

import { writeSync } from "node:fs";
import { openDatabase } from "../database.ts";
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
