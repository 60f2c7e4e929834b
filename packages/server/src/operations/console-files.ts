// Where are the files of the console?
//
// Here, where its build has written them (packages/console/build.mjs). The published package has another module in place of this one, because
// its folders lie differently (tools/pack/build.ts).

import { join } from "node:path";

export const consoleFiles = join(import.meta.dirname, "../../../console/dist");
