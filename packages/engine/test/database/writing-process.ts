// A process that writes in an endless loop, and prints what was acknowledged to standard output. kill.test.ts kills it.
//
// argv: data directory, number of the first round. Each round writes a batch that replaces all of the last one, or
// does the same in a transaction; a line "round N" follows the acknowledgement.

import { writeSync } from "node:fs";
import { openDatabase } from "../../src/database/database.ts";

const [dataDir, first] = process.argv.slice(2);
const database = await openDatabase({ dataDir });
const collection = database.collection("c");
for (let round = Number(first); ; round++) {
  const vectors = Array.from({ length: 200 }, (_, i) => ({
    id: `v${i}`,
    document_id: `d${i % 10}`,
    dense_values: [round, i],
    text: `round${round}`,
  }));
  if (round % 2 === 0) await collection.upsert(vectors);
  else {
    for (const { transaction_id } of collection.transactions().transactions)
      if ("NotStarted" in collection.transaction(transaction_id).status().status)
        await collection.transaction(transaction_id).abort();
    const { transaction_id } = await collection.beginTransaction();
    const transaction = collection.transaction(transaction_id);
    await transaction.upsert(vectors.slice(0, 100));
    await transaction.upsert(vectors.slice(100));
    await transaction.commit();
  }
  writeSync(1, `round ${round}\n`);
}
