// Does a server that has nothing to do take little memory?
//
// `quiver serve` as it starts, compiled into one file a thread (docs/decisions/memory.md).

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ServerProcess } from "./campaigns/server-process.ts";

/** With room for other versions of Node.js and of the C library: 143 and 110 MB were measured. */
const megabytesMax = { one: 190, none: 150 };

test.skipIf(process.platform !== "linux").each([
  { threads: "one serving thread", flags: [], most: megabytesMax.one },
  { threads: "no serving thread", flags: ["--serving-threads", "0"], most: megabytesMax.none },
])(
  "an empty server at rest with $threads takes at most $most MB",
  async ({ flags, most }) => {
    const directory = mkdtempSync(join(tmpdir(), "quiver-memory-"));
    const server = new ServerProcess(directory, {
      flags: [...flags, "--log-level", "info"],
      // Checks give their servers V8's compile cache, which a server does not have.
      env: { NODE_DISABLE_COMPILE_CACHE: "1" },
    });
    try {
      await server.ready();
      const residentMegabytes = () =>
        (Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))?.[1]) * 1_024) /
        1e6;
      // Each thread collects what its start has left when it rests for 5 s.
      await expect.poll(residentMegabytes, { timeout: 60_000, interval: 1_000 }).toBeLessThan(most);
      await server.stop();
    } finally {
      await server.kill();
      rmSync(directory, { recursive: true, force: true });
    }
  },
  100_000,
);
