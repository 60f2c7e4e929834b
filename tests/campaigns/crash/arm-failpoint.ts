// How does a campaign end a server between two steps?
//
//   QUIVER_FAILPOINT=NAME@N node --import tests/campaigns/crash/arm-failpoint.ts packages/cli/src/main.ts serve ...
//
// The N-th passage of that name in a thread ends the process with SIGKILL. Node.js loads the module before the program, and again
// in each of its threads, for they inherit the option.

import { armFailpoints } from "@quiver/engine/base/failpoint";

const [armed, passage] = (process.env.QUIVER_FAILPOINT ?? "").split("@");
let left = Number(passage ?? 1);

armFailpoints((name) => {
  if (name === armed && --left <= 0) process.kill(process.pid, "SIGKILL");
});
