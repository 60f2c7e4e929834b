// What does a search cost the whole engine as a server, beside other servers?
//
//   npm run bench servers                                            all sets and sizes, only printed
//   npm run bench servers -- --write                                 writes docs/benchmarks-servers.md
//   npm run bench servers -- --sets glove-cosine --sizes 10000       some of them; with --write the others stay on the page
//   node tools/launch.mjs run bench/servers/report.ts                regenerates the page from stored results
//
//   --servers NAME,...  --rounds 3  --turn 1000 and --warm 7000 (milliseconds)  --queries 200
//
// PostgreSQL, Redis and Chroma's C library come from Debian 13, which is installed below bench/.cache (debian.ts). Where that is not possible
// they are left out, with the reason.

import { parseArgs } from "node:util";
import { kindNamed } from "../shared/engine.ts";
import { installRivals } from "../shared/install.ts";
import { keepResult } from "../shared/results.ts";
import { missing, setNames } from "./data.ts";
import { serverKinds } from "./kinds.ts";
import { measure } from "./measure.ts";
import { sectionOf, writeReport } from "./report.ts";

const { values } = parseArgs({
  options: {
    sets: { type: "string", default: setNames.join(",") },
    sizes: { type: "string", default: "10000,50000" },
    servers: { type: "string", default: serverKinds.map(({ name }) => name).join(",") },
    rounds: { type: "string", default: "3" },
    turn: { type: "string", default: "1000" },
    warm: { type: "string", default: "7000" },
    queries: { type: "string", default: "200" },
    write: { type: "boolean", default: false },
  },
});

const reason = installRivals();
if (reason !== undefined) console.log(reason);
for (const set of values.sets.split(",")) {
  const why = missing(set);
  if (why !== undefined) {
    console.log(`${set}: ${why}`);
    continue;
  }
  for (const size of values.sizes.split(",")) {
    const result = await measure({
      set,
      rowCount: Number(size),
      kinds: values.servers.split(",").map((name) => kindNamed(serverKinds, name)),
      rounds: Number(values.rounds),
      turnMs: Number(values.turn),
      warmMs: Number(values.warm),
      queryCount: Number(values.queries),
    });
    console.log(sectionOf(result));
    if (!values.write) continue;
    keepResult("servers", result);
    writeReport();
  }
}
