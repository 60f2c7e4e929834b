// How does a test get a disk that is really full, or really read-only?

import { execFileSync } from "node:child_process";
import {
  closeSync,
  mkdtempSync,
  openSync,
  realpathSync,
  rmdirSync,
  rmSync,
  statfsSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The reason why no file system can be mounted here; null if one can. */
export function whyNoMount(): string | null {
  if (process.platform !== "linux") return "the small disk is a tmpfs of Linux";
  try {
    new SmallDisk(1).remove();
    return null;
  } catch {
    return "mounting a file system is not permitted here";
  }
}

const mount = (...args: string[]) => execFileSync("mount", args, { stdio: "pipe" });

/** A file system of its own, in memory. */
export class SmallDisk {
  readonly path: string;

  constructor(megabytes: number) {
    this.path = realpathSync(mkdtempSync(join(tmpdir(), "quiver-disk-")));
    try {
      mount("-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", this.path);
    } catch (error) {
      rmdirSync(this.path);
      throw error;
    }
  }

  get freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.path);
    return bavail * bsize;
  }

  /** Takes all free space, as a file of another program would. */
  fill(): void {
    const page = new Uint8Array(4096);
    const file = openSync(join(this.path, "ballast"), "a");
    try {
      for (;;) writeSync(file, page);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    } finally {
      closeSync(file);
    }
  }

  /** Removes what `fill` has written. */
  free(): void {
    rmSync(join(this.path, "ballast"), { force: true });
  }

  /** Enlarges the disk while its files are in use. */
  resize(megabytes: number): void {
    mount("-o", `remount,size=${megabytes}m`, this.path);
  }

  /** The system refuses it while a file is open for writing. */
  makeReadOnly(): void {
    mount("-o", "remount,ro", this.path);
  }

  makeWritable(): void {
    mount("-o", "remount,rw", this.path);
  }

  /** Unmounts it, also when a process that is about to end still uses it. */
  remove(): void {
    execFileSync("umount", ["--lazy", this.path], { stdio: "pipe" });
    rmdirSync(this.path);
  }
}
