// Does a data directory have only one owner at a time, whichever process tries and however the last one ended?

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Worker } from "node:worker_threads";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { checkDirectory } from "../database/check/directory.ts";
import { repairDirectory } from "../database/check/repair.ts";
import { openDatabase } from "../database/database.ts";
import { lockForReading, takeLock } from "./directory-lock.ts";

const program = new URL("../../test/runtime/owning-process.ts", import.meta.url);

let folder: string;
let dataDir: string;
const children = new Set<ChildProcess>();

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "quiver-lock-")));
  dataDir = join(folder, "data");
});
afterEach(async () => {
  for (const child of children) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill("SIGKILL");
    await once(child, "exit");
  }
  children.clear();
  rmSync(folder, { recursive: true, force: true });
});

/** A process that opens the directory, or tries to. @param prefix command that starts it, such as `unshare` */
function start(directory: string, lockWaitMs = 0, prefix: readonly string[] = []) {
  const [command, ...args] = [...prefix, process.execPath, program.pathname, directory, String(lockWaitMs)];
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  children.add(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => (await lines.next()).value ?? "ended";
  const close = async () => {
    child.stdin.write("\n");
    await once(child, "exit");
  };
  return { child, next, close };
}

const refused = {
  code: "data_directory_in_use",
  details: { pid: expect.any(Number), host: hostname(), since: expect.any(String), path: expect.any(String) },
  message: expect.stringMatching(/is in use by process \d+ on host .+, since \d{4}-.*stop the other one/),
};

describe("[R6] one owner", () => {
  it("is refused a second time in one process at once, by any path", async () => {
    const database = await openDatabase({ dataDir });
    symlinkSync(dataDir, join(folder, "link"));
    const second = {
      code: "data_directory_in_use",
      details: { pid: process.pid, path: realpathSync(dataDir) },
      message: expect.stringContaining("This process has the data"),
    };
    // Would it be waited for, the test would not end in its time.
    for (const path of [dataDir, join(folder, "link"), `${dataDir}/.`])
      await expect(openDatabase({ dataDir: path, lockWaitMs: 1e9 })).rejects.toMatchObject(second);
    await database.close();
    await (await openDatabase({ dataDir: join(folder, "link") })).close();
  });

  it("lets one of several that open it at the same moment in", async () => {
    const opening = await Promise.allSettled(
      Array.from({ length: 4 }, () => openDatabase({ dataDir, lockWaitMs: 0 })),
    );
    const open = opening.filter((each) => each.status === "fulfilled");
    expect(open).toHaveLength(1);
    await open[0].value.close();
  });

  it("names the owner to another process, which has changed nothing", async () => {
    const owner = start(dataDir);
    expect(await owner.next()).toBe("open");
    const modes = () => readdirSync(dataDir).map((name) => [name, statSync(join(dataDir, name)).mtimeMs]);
    const before = modes();
    await expect(openDatabase({ dataDir, lockWaitMs: 0 })).rejects.toMatchObject(refused);
    await expect(openDatabase({ dataDir, lockWaitMs: 0 })).rejects.toMatchObject({
      message: expect.stringContaining(`process ${owner.child.pid} on host ${hostname()}, since`),
    });
    expect(modes()).toEqual(before);
    await owner.close();
    await (await openDatabase({ dataDir, lockWaitMs: 0 })).close();
  });

  it("waits for an owner that is stopping, and reports it", async () => {
    const owner = start(dataDir);
    expect(await owner.next()).toBe("open");
    const second = start(dataDir, 1e9);
    expect(await second.next()).toMatch(new RegExp(`^waits: .* process ${owner.child.pid} on host`));
    await owner.close();
    expect(await second.next()).toBe("open");
  });

  it("is taken over from a killed process, without waiting for its exit", async () => {
    for (let kill = 0; kill < 5; kill++) {
      const owner = start(dataDir, 60_000);
      let line = await owner.next();
      if (line.startsWith("waits")) line = await owner.next();
      expect(line).toBe("open");
      owner.child.kill("SIGKILL");
    }
  });

  it("is taken over at the moment of the kill by a process that is already running", async () => {
    for (let kill = 0; kill < 3; kill++) {
      const owner = start(dataDir);
      expect(await owner.next()).toBe("open");
      owner.child.kill("SIGKILL");
      await (await openDatabase({ dataDir, lockWaitMs: 60_000 })).close();
    }
  });

  it.skipIf(process.platform !== "linux")(
    "is no owner any more after a kill, even if the parent has not reaped it",
    async () => {
      // `sleep`, which replaces the shell, does not reap its children, so the killed one stays in the process table.
      const command = `"${process.execPath}" "${program.pathname}" "${dataDir}" & echo $!; exec sleep 1000`;
      const parent = spawn("sh", ["-c", command], { stdio: ["ignore", "pipe", "inherit"] });
      children.add(parent);
      const lines = createInterface({ input: parent.stdout })[Symbol.asyncIterator]();
      const pid = Number((await lines.next()).value);
      expect((await lines.next()).value).toBe("open");
      process.kill(pid, "SIGKILL");
      await (await openDatabase({ dataDir, lockWaitMs: 60_000 })).close();
      expect(readFileSync(`/proc/${pid}/stat`, "utf8")).toMatch(/\) Z /);
    },
  );

  it("is free in a copy that was made while it was in use", async () => {
    const owner = start(dataDir);
    expect(await owner.next()).toBe("open");
    const copy = join(folder, "copy");
    cpSync(dataDir, copy, { recursive: true });
    expect(existsSync(join(copy, "quiver.owner"))).toBe(true);
    await (await openDatabase({ dataDir: copy, lockWaitMs: 0 })).close();
    await expect(openDatabase({ dataDir, lockWaitMs: 0 })).rejects.toMatchObject(refused);
  });

  it.each([
    ["the lock file of an earlier version", "quiver.lock", JSON.stringify({ pid: process.ppid, began: "" })],
    ["a torn lock file", "quiver.lock", "torn"],
    ["a torn owner file", "quiver.owner", '{"host":'],
    ["a running process without the lock", "quiver.owner", JSON.stringify({ pid: process.ppid })],
  ])("is not blocked by %s", async (_what, name, content) => {
    mkdirSync(dataDir);
    writeFileSync(join(dataDir, name), content);
    const database = await openDatabase({ dataDir, lockWaitMs: 0 });
    expect(await start(dataDir).next()).toMatch(
      new RegExp(`^refused: .* process ${process.pid} on host ${hostname()}, since`),
    );
    await database.close();
  });

  it("stays locked when others read the owner, or are refused", async () => {
    const database = await openDatabase({ dataDir });
    for (let i = 0; i < 3; i++) {
      await expect(openDatabase({ dataDir })).rejects.toMatchObject({ code: "data_directory_in_use" });
      await expect(checkDirectory(dataDir)).rejects.toMatchObject({ code: "data_directory_in_use" });
      expect(await start(dataDir).next()).toMatch(/^refused/);
    }
    await database.close();
  });
});

describe("[R6] threads of one process", () => {
  const thread = async () => {
    const worker = new Worker(program, { workerData: [dataDir, "0"] });
    const [line] = await once(worker, "message");
    return { worker, line: line as string };
  };

  it("have one owner, and one that was ended is none", async () => {
    const { worker, line } = await thread();
    expect(line).toBe("open");
    await expect(openDatabase({ dataDir, lockWaitMs: 0 })).rejects.toMatchObject(refused);
    expect(await start(dataDir).next()).toMatch(/^refused/);
    // The refused connection of this thread did not take the lock from the other one.
    expect(await start(dataDir).next()).toMatch(/^refused/);
    await worker.terminate();
    const database = await openDatabase({ dataDir, lockWaitMs: 0 });
    const second = await thread();
    expect(second.line).toMatch(/^refused/);
    expect(await start(dataDir).next()).toMatch(/^refused/);
    await database.close();
  });
});

describe("[R6] a check or a repair", () => {
  it("[Z1] is refused while the directory has an owner", async () => {
    const owner = start(dataDir);
    expect(await owner.next()).toBe("open");
    await expect(checkDirectory(dataDir)).rejects.toMatchObject(refused);
    await expect(repairDirectory(dataDir, join(folder, "into"))).rejects.toMatchObject(refused);
    await owner.close();
    expect((await checkDirectory(dataDir)).findings).toEqual([]);
  });

  it("keeps owners out while it reads, and not other readers", async () => {
    await (await openDatabase({ dataDir })).close();
    const unlock = [lockForReading(dataDir), lockForReading(dataDir)];
    expect((await checkDirectory(dataDir)).findings).toEqual([]);
    expect(await start(dataDir).next()).toMatch(/^refused: .* being read by a quiver check or quiver repair/);
    unlock[0]();
    expect(await start(dataDir).next()).toMatch(/^refused/);
    unlock[1]();
    expect(await start(dataDir).next()).toBe("open");
  });

  it("makes nothing in a directory that it reads", async () => {
    await (await openDatabase({ dataDir })).close();
    rmSync(join(dataDir, "quiver.lock"));
    const names = readdirSync(dataDir);
    await checkDirectory(dataDir);
    expect(readdirSync(dataDir)).toEqual(names);
  });
});

/** A command prefix that gives a program its own PID namespace; null if that is not permitted. */
function pidNamespace(): readonly string[] | null {
  const flags = ["--pid", "--fork", "--mount-proc", "--kill-child"];
  for (const prefix of [
    ["unshare", ...flags],
    ["unshare", "--user", "--map-root-user", ...flags],
  ])
    try {
      execFileSync(prefix[0], [...prefix.slice(1), "true"], { stdio: "ignore" });
      return prefix;
    } catch {
      // Not this way.
    }
  return null;
}

const inNamespace = pidNamespace();

describe.skipIf(inNamespace === null)(
  `[R6] PID namespaces${inNamespace === null ? " (skipped: unshare --pid is not allowed here)" : ""}`,
  () => {
    it("two processes that cannot see each other, and both have the number 1, have one owner", async () => {
      const first = start(dataDir, 0, inNamespace as string[]);
      expect(await first.next()).toBe("open");
      const second = start(dataDir, 0, inNamespace as string[]);
      expect(await second.next()).toMatch(/^refused: .* in use by process 1 on host/);
      expect(await start(dataDir).next()).toMatch(/^refused: .* in use by process 1 on host/);
      const third = start(dataDir, 60_000, inNamespace as string[]);
      expect(await third.next()).toMatch(/^waits/);
      first.child.kill("SIGKILL");
      expect(await third.next()).toBe("open");
    });
  },
);

describe("[R9] [R6] the lock file", () => {
  it("is empty and private, stays after its release, and SQLite creates no file next to it", async () => {
    mkdirSync(dataDir);
    const unlock = await takeLock(dataDir);
    expect(statSync(join(dataDir, "quiver.lock"))).toMatchObject({ size: 0 });
    for (const name of readdirSync(dataDir)) expect(statSync(join(dataDir, name)).mode & 0o777).toBe(0o600);
    expect(readdirSync(dataDir).sort()).toEqual(["quiver.lock", "quiver.owner"]);
    unlock();
    expect(readdirSync(dataDir).sort()).toEqual(["quiver.lock", "quiver.owner"]);
  });
});
