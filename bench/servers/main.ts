// What does a search cost the whole engine as a server, beside other servers?
//
//   npm run bench servers                                            all sets and sizes
//   npm run bench servers -- --sets glove-cosine --sizes 10000       some of them; the stored results of the others stay
//
//   --servers NAME,...  --rounds 3  --turn 1000 and --warm 7000 (milliseconds)  --queries 200
//
// PostgreSQL, Redis and Chroma's C library come from Debian 13, which is installed below bench/.cache (debian.ts). Where that is not possible
// they are left out, with the reason.

import { kindNamed } from "../engines/engine.ts";
import { installRivals } from "../shared/install.ts";
import { readOptions } from "../shared/options.ts";
import { publish } from "../shared/publish.ts";
import { missing, setNames } from "./data.ts";
import { serverKinds } from "./kinds.ts";
import { measure } from "./measure.ts";

const { values, isKept } = readOptions(
  { sets: setNames.join(","), sizes: "10000,50000" },
  {
    servers: serverKinds.map(({ name }) => name).join(","),
    rounds: "3",
    turn: "1000",
    warm: "7000",
    queries: "200",
  },
);

const reason = installRivals();
if (reason !== undefined) console.log(reason);
for (const set of values.sets.split(",")) {
  const why = missing(set);
  if (why !== undefined) {
    console.log(`${set}: ${why}`);
    continue;
  }
  for (const size of values.sizes.split(",")) {
    const measured = await measure({
      set,
      rowCount: Number(size),
      kinds: values.servers.split(",").map((name) => kindNamed(serverKinds, name)),
      rounds: Number(values.rounds),
      turnMs: Number(values.turn),
      warmMs: Number(values.warm),
      queryCount: Number(values.queries),
    });
    publish("servers", measured, isKept);
  }
}
