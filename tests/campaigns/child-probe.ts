// How much memory does a server under test hold, once it has let go of what it does not need?
//
// Loaded before the server (`node --import`), it answers the parent's messages over the process channel. The server
// itself knows nothing of it.

import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** Bytes, but for the counts. */
export type Probe = {
  /** Memory of the process that is no file's: private pages on Linux, else all that is resident. */
  readonly residentBytes: number;
  readonly heapBytes: number;
  /** Outside of the heap but kept by it: buffers, WebAssembly memories. */
  readonly externalBytes: number;
  /** Open files and sockets; 0 where the system does not tell. */
  readonly handles: number;
};

async function measure(): Promise<Probe> {
  // What one collection frees lets finalizers run, which free more.
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.();
    await sleep(20);
  }
  const { rss, heapUsed, external } = process.memoryUsage();
  const isLinux = process.platform === "linux";
  return {
    residentBytes: isLinux ? privateBytes() : rss,
    heapBytes: heapUsed,
    externalBytes: external,
    handles: isLinux ? readdirSync("/proc/self/fd").length : 0,
  };
}

function privateBytes(): number {
  const line = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"));
  if (!line) throw new Error("/proc/self/status has no RssAnon");
  return Number(line[1]) * 1024;
}

if (process.channel) {
  process.on("message", () => void measure().then((probe) => process.send?.(probe)));
  // The channel alone keeps no server running.
  process.channel.unref();
}
