// How much memory does a server under test use after garbage collection?
//
// Loaded before the server (`node --import`), this module answers the parent's messages over the process channel. The server itself does
// not know about it.

import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** In bytes, except the counts. */
export type Probe = {
  /** Memory of the process without mapped files: private pages on Linux, otherwise all resident memory. */
  readonly residentBytes: number;
  readonly heapBytes: number;
  /** Outside the heap but referenced by it: buffers, WebAssembly memories. */
  readonly externalBytes: number;
  /** Open files and sockets; 0 where the system does not tell. */
  readonly handles: number;
};

async function measure(): Promise<Probe> {
  // One garbage collection triggers finalizers, which free more memory.
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

/** How long the event loop was blocked at a time, in milliseconds of the thread's processor time. */
export type Holds = { readonly p99Ms: number; readonly worstMs: number };

const lookMs = 5;
const holds: number[] = [];

/**
 * Samples at intervals the processor time that the thread has used since the last sample. A sample that is late, because the loop was
 * blocked, covers the whole time. Time of other processes does not count, so the result does not depend on the load of the machine.
 */
function watchHolds(): void {
  const used = () => {
    const { user, system } = (
      process as NodeJS.Process & { threadCpuUsage(): NodeJS.CpuUsage }
    ).threadCpuUsage();
    return (user + system) / 1_000;
  };
  let before = used();
  setInterval(() => {
    const now = used();
    holds.push(now - before);
    before = now;
  }, lookMs).unref();
}

function takeHolds(): Holds {
  const sorted = holds.splice(0).sort((a, b) => a - b);
  return { p99Ms: sorted[Math.floor(0.99 * sorted.length)] ?? 0, worstMs: sorted.at(-1) ?? 0 };
}

if (process.channel) {
  watchHolds();
  process.on("message", (message) => {
    if (message === "holds") process.send?.(takeHolds());
    else void measure().then((probe) => process.send?.(probe));
  });
  // The channel alone does not keep the process alive.
  process.channel.unref();
}
