// What do the processes of a server take?
//
// Read from /proc, for the process that was started and all that descend from it: PostgreSQL has a process for each connection. Linux counts
// processor time in ticks of 10 ms, so that a measurement has to be much longer than that.

import { readdirSync, readFileSync } from "node:fs";

/** Of /proc/PID/stat. */
export type Stat = {
  readonly pid: number;
  readonly parent: number;
  /** Of the process itself, its ended threads included, and of its children that have ended and were waited for. */
  readonly ticks: number;
};

/** The processor time of a process per second of it (USER_HZ, which is 100 on every Linux that Node.js runs on). */
const ticksPerMs = 0.1;

/** @param text of /proc/PID/stat: "pid (name) state parent ..."; the name may contain spaces and brackets */
export function statOf(text: string): Stat {
  const end = text.lastIndexOf(")");
  const [, parent, ...rest] = text.slice(end + 2).split(" ");
  // utime, stime, cutime and cstime are the fields 14 to 17, counted from one; `rest` begins with the fifth.
  const ticks = rest.slice(9, 13).reduce((sum, field) => sum + Number(field), 0);
  return { pid: Number.parseInt(text, 10), parent: Number(parent), ticks };
}

/** The processes that descend from this one, and itself. */
export function treeOf(root: number, stats: readonly Stat[]): Stat[] {
  const found = stats.filter(({ pid }) => pid === root);
  for (const { pid } of found) found.push(...stats.filter(({ parent }) => parent === pid));
  return found;
}

/** What `read` returns for a process; undefined if it has ended meanwhile. */
function unlessEnded<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ESRCH") return undefined;
    throw error;
  }
}

const statsNow = (): Stat[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => unlessEnded(() => statOf(readFileSync(`/proc/${pid}/stat`, "utf8"))))
    .filter((stat) => stat !== undefined);

function treeNow(root: number): Stat[] {
  const tree = treeOf(root, statsNow());
  if (tree.length === 0) throw new Error(`process ${root} has ended`);
  return tree;
}

/** Processor time until now, in milliseconds. */
export const cpuMsOf = (root: number): number =>
  treeNow(root).reduce((sum, { ticks }) => sum + ticks, 0) / ticksPerMs;

/** Bytes in memory. */
export type Memory = {
  /** Memory that no file backs, and memory that its processes share. */
  readonly ownBytes: number;
  /** Mapped files, programs included, which the kernel can drop. */
  readonly fileBytes: number;
};

/** @param text of /proc/PID/smaps_rollup; a page of several processes counts in proportion */
export function memoryIn(text: string): Memory {
  const bytes = (name: string): number => {
    const kib = new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(text)?.[1];
    if (kib === undefined) throw new Error(`smaps_rollup does not tell ${name}`);
    return Number(kib) * 1_024;
  };
  return { ownBytes: bytes("Pss_Anon") + bytes("Pss_Shmem"), fileBytes: bytes("Pss_File") };
}

/** The memory of all processes now. */
export function memoryOf(root: number): Memory {
  const all = treeNow(root)
    .map(({ pid }) => unlessEnded(() => memoryIn(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))))
    .filter((memory) => memory !== undefined);
  return {
    ownBytes: all.reduce((sum, { ownBytes }) => sum + ownBytes, 0),
    fileBytes: all.reduce((sum, { fileBytes }) => sum + fileBytes, 0),
  };
}
