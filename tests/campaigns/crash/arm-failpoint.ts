// How does a campaign kill a server between two steps?
//
//   QUIVER_FAILPOINT=NAME@N node --import tests/campaigns/crash/arm-failpoint.ts packages/cli/src/main.ts serve ...
//
// The N-th passage of that failpoint in a thread kills the process with SIGKILL; with QUIVER_FAILPOINT_THROWS=K, that passage and the K - 1
// after it throw an error instead, with a message on stderr. Node.js loads the module before the program, and again in each of its threads,
// because threads inherit the option.

import { writeSync } from "node:fs";
import { armFailpoints } from "@quiverdb/engine/base/failpoint";

const [armed, passage] = (process.env.QUIVER_FAILPOINT ?? "").split("@");
const throws = Number(process.env.QUIVER_FAILPOINT_THROWS ?? 0);
let left = Number(passage ?? 1);

armFailpoints((name) => {
  if (name !== armed || --left > 0) return;
  if (throws === 0) process.kill(process.pid, "SIGKILL");
  if (left <= -throws) return;
  writeSync(2, `failpoint ${name} throws\n`);
  throw new Error(`the failpoint ${name} throws`);
});
