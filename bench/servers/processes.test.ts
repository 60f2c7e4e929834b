import { expect, test } from "vitest";
import { cpuMsOf, memoryIn, memoryOf, statOf, treeOf } from "./processes.ts";

const stat = (pid: number, name: string, parent: number, [utime, stime, cutime, cstime]: readonly number[]) =>
  `${pid} (${name}) S ${parent} 1 1 0 -1 4194304 103 0 0 0 ${utime} ${stime} ${cutime} ${cstime} 20 0 1 0 60130 3133440 415`;

test("a stat is read whatever the name of the program is", () => {
  expect(statOf(stat(17, "a) S 9 (b c", 4, [1, 20, 300, 4000]))).toEqual({ pid: 17, parent: 4, ticks: 4321 });
});

test("a tree has all descendants, and nobody else", () => {
  const parents: readonly (readonly [number, number])[] = [
    [9, 1],
    [3, 5],
    [5, 2],
    [2, 1],
    [4, 2],
    [1, 0],
    [8, 9],
  ];
  const stats = parents.map(([pid, parent]) => statOf(stat(pid, "x", parent, [0, 0, 0, 0])));
  expect(
    treeOf(2, stats)
      .map(({ pid }) => pid)
      .sort(),
  ).toEqual([2, 3, 4, 5]);
  expect(treeOf(7, stats)).toEqual([]);
});

test("memory without a file is told apart from that of files", () => {
  const text = "Rss:  9999 kB\nPss_Anon:  112 kB\nPss_File:  259 kB\nPss_Shmem:  8 kB\n";
  expect(memoryIn(text)).toEqual({ ownBytes: 120 * 1024, fileBytes: 259 * 1024 });
  expect(() => memoryIn("Pss_Anon:  112 kB\n")).toThrow("Pss_Shmem");
});

test.runIf(process.platform === "linux")("a process that works takes processor time and has memory", () => {
  const before = cpuMsOf(process.pid);
  const { user, system } = process.cpuUsage();
  while (process.cpuUsage().user + process.cpuUsage().system < user + system + 200_000);
  expect(cpuMsOf(process.pid) - before).toBeGreaterThan(150);
  expect(memoryOf(process.pid).ownBytes).toBeGreaterThan(1_000_000);
  expect(memoryOf(process.pid).fileBytes).toBeGreaterThan(0);
});
