// Is anything lost when processes of a cluster are killed under load?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { DevCluster } from "../src/dev/dev-cluster.ts";
import { killTest } from "../src/dev/kill-test.ts";
import { findNatsServer } from "../src/dev/nats-server.ts";

const root = resolve(import.meta.dirname, "../../..");
const found = findNatsServer(join(root, ".cache"));
const missing = "missing" in found ? found.missing : undefined;

test.skipIf(missing !== undefined)(
  `[Y2] what was acknowledged is on every node after a server and a node were killed (${missing ?? "nats-server is there"})`,
  async () => {
    if (!("path" in found)) return;
    const directory = mkdtempSync(join(tmpdir(), "quiver-kill-"));
    const cluster = await DevCluster.start({
      nats: found.path,
      directory,
      quiver: [process.execPath, join(root, "packages/cli/src/main.ts")],
      args: ["--no-console"],
    });
    const lines: string[] = [];
    try {
      const wrong = await killTest(cluster, { seconds: 12, clients: 4, print: (line) => lines.push(line) });
      expect(wrong, lines.join("\n")).toEqual([]);
      expect(lines.join("\n")).toMatch(/n3: (\d+) of \1 acknowledged records/);
    } finally {
      await cluster.stop();
      rmSync(directory, { recursive: true, force: true });
    }
  },
);
