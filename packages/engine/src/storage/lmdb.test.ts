// What does LMDB's store do beyond the contract of every store?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { LmdbStore } from "./lmdb.ts";

it("[R1] a closed store releases its memory", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const folder = mkdtempSync(join(tmpdir(), "quiver-lmdb-"));
  const openAndClose = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const store = new LmdbStore(mkdtempSync(join(folder, "store-")), ["a", "b"]);
      store.write((writer) => writer.put("a", Uint8Array.of(1), Uint8Array.of(2)));
      await store.close();
    }
    // Finalizers run between turns of the event loop.
    for (let turn = 0; turn < 3; turn++) {
      collect();
      await new Promise((resolve) => setImmediate(resolve));
    }
    return process.memoryUsage().arrayBuffers;
  };
  try {
    const before = await openAndClose(5);
    const bytesPerStore = ((await openAndClose(40)) - before) / 40;
    expect(bytesPerStore).toBeLessThan(4_096);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
