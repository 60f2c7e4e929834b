// How does Node.js serve as the host of the engine?
//
// Importing this file makes Node.js the host of the thread (base/host.ts), and lets the kernels be read from disk. The first module of
// every thread imports it (node-host.test.ts).

import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { provideKernels } from "@quiverdb/kernels/loader";
import { type Host, useHost } from "../base/host.ts";
import { kernelBytes } from "./kernel-builds.ts";

/** Node.js as the host. */
export const nodeHost: Host = {
  sha256: () => createHash("sha256"),
  crc32,
  compare: Buffer.compare,
  // Small ones come out of a pool; a small array of one's own takes ten times as long, and is a memory outside of the heap.
  allocate: Buffer.allocUnsafe,
  defer(act) {
    setImmediate(act);
  },
  characterTables: { icu: process.versions.icu, unicode: process.versions.unicode },
};

useHost(nodeHost);
provideKernels(kernelBytes);
