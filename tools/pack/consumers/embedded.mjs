// node embedded.mjs DIR

import { open } from "@quiverdb/database";
import { steps } from "./steps.mjs";

const database = await open(process.argv[2]);
console.log(await steps(database, "books"));
await database.close();
