import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "quiver-launch-"));
  const lockfile = { name: "fixture", version: "1.0.0", lockfileVersion: 3, requires: true };
  write("package.json", JSON.stringify({ name: "fixture", version: "1.0.0" }));
  write(
    "package-lock.json",
    JSON.stringify({ ...lockfile, packages: { "": { name: "fixture", version: "1.0.0" } } }),
  );
  mkdirSync(join(root, "tools"));
  cpSync(join(import.meta.dirname, "launch.mjs"), join(root, "tools", "launch.mjs"));
});

afterEach(() => rmSync(root, { recursive: true }));

function write(path: string, text: string): void {
  const full = join(root, path);
  mkdirSync(join(full, ".."), { recursive: true });
  writeFileSync(full, text);
}

type Ended = { code: number | null; signal: string | null; stdout: string; stderr: string };

function launch(...args: string[]): { child: ChildProcess; ended: Promise<Ended> } {
  const child = spawn(process.execPath, [join(root, "tools", "launch.mjs"), ...args], { cwd: root });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output.stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text) => {
    output.stderr += text;
  });
  const ended = once(child, "close").then(([code, signal]) => ({ code, signal, ...output }));
  return { child, ended };
}

const lineFrom = async (child: ChildProcess): Promise<void> => {
  await once(child.stdout as NodeJS.ReadableStream, "data");
};

describe("the command", () => {
  test("gets its arguments, and its exit code is the launcher's", async () => {
    write("a.ts", "const rest: string[] = process.argv.slice(2); console.log(rest.join()); process.exit(7);");
    const { code, stdout } = await launch("run", "a.ts", "--port", "9000").ended;
    expect({ code, stdout }).toEqual({ code: 7, stdout: "--port,9000\n" });
  });

  test("its signal is the launcher's", async () => {
    write("a.ts", 'process.kill(process.pid, "SIGKILL"); setInterval(() => {}, 1000);');
    expect(await launch("run", "a.ts").ended).toMatchObject({ code: null, signal: "SIGKILL" });
  });

  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)(
    "%s reaches it once, and it ends in its own time",
    async (name) => {
      write(
        "a.ts",
        `let times = 0;
       process.on("${name}", () => { times++; setTimeout(() => { console.log(times); process.exit(3); }, 300); });
       setInterval(() => {}, 1000);
       console.log("ready");`,
      );
      const { child, ended } = launch("run", "a.ts");
      await lineFrom(child);
      child.kill(name);
      expect(await ended).toMatchObject({ code: 3, signal: null, stdout: "ready\n1\n" });
    },
  );

  test.skipIf(process.platform === "win32")(
    "it is told to end when the npm that launched it has died",
    async () => {
      write(
        "a.ts",
        'process.on("SIGTERM", () => { console.log("end"); process.exit(); }); setInterval(() => {}, 1000); console.log("ready");',
      );
      const command = `"${process.execPath}" tools/launch.mjs run a.ts; true`;
      const env = { ...process.env, npm_lifecycle_event: "start" };
      const shell = spawn("sh", ["-c", command], { cwd: root, env, stdio: ["ignore", "pipe", "inherit"] });
      await lineFrom(shell);
      shell.kill("SIGKILL");
      const [rest] = await once(shell.stdout, "data");
      expect(String(rest)).toBe("end\n");
    },
  );

  test("programs that it starts run on the same Node.js", async () => {
    write(
      "a.ts",
      `import { execFileSync } from "node:child_process";
       console.log(String(execFileSync("node", ["--version"])).trim() === process.version);`,
    );
    expect((await launch("run", "a.ts").ended).stdout).toBe("true\n");
  });

  test("an unknown one is refused before any set-up", async () => {
    const { code, stderr } = await launch("fly").ended;
    expect(code).toBe(2);
    expect(stderr).toMatch("usage:");
    expect(existsSync(join(root, "node_modules"))).toBe(false);
  });
});

describe("the set-up", () => {
  const build = `import { appendFileSync, mkdirSync } from "node:fs";
    mkdirSync("packages/kernels/dist", { recursive: true });
    appendFileSync("built.log", "x");`;
  const builds = () => readFileSync(join(root, "built.log"), "utf8").length;
  const installs = (stderr: string) => stderr.split("installing dependencies").length - 1;

  test("is done once and then silent", async () => {
    expect(installs((await launch("setup").ended).stderr)).toBe(1);
    expect(await launch("setup").ended).toMatchObject({ code: 0, stdout: "", stderr: "" });
  });

  test("installs again when the lockfile has changed, unless an npm install has done so", async () => {
    await launch("setup").ended;
    const manifest = { name: "fixture", version: "1.0.0", dependencies: { part: "file:part" } };
    const packages = {
      "": manifest,
      part: { version: "1.0.0" },
      "node_modules/part": { resolved: "part", link: true },
    };
    write("part/package.json", '{ "name": "part", "version": "1.0.0" }');
    write("package.json", JSON.stringify(manifest));
    write("package-lock.json", JSON.stringify({ ...manifest, lockfileVersion: 3, requires: true, packages }));
    const { code, stderr } = await launch("setup").ended;
    expect({ code, installs: installs(stderr) }).toEqual({ code: 0, installs: 1 });
    expect(existsSync(join(root, "node_modules", "part", "package.json"))).toBe(true);
    rmSync(join(root, "node_modules", ".quiver-lock-sha256"));
    expect(await launch("setup").ended).toMatchObject({ code: 0, stderr: "" });
  });

  test("installs what npm's own list names and node_modules lacks, as after `npm install --package-lock-only`", async () => {
    const packages = { "node_modules/part": { resolved: "part", link: true } };
    const manifest = { name: "fixture", version: "1.0.0", dependencies: { part: "file:part" } };
    const all = { "": manifest, part: { version: "1.0.0" }, ...packages };
    write("part/package.json", '{ "name": "part", "version": "1.0.0" }');
    write("package.json", JSON.stringify(manifest));
    write("package-lock.json", JSON.stringify({ lockfileVersion: 3, requires: true, packages: all }));
    write("node_modules/.package-lock.json", JSON.stringify({ lockfileVersion: 3, packages }));
    const { code, stderr } = await launch("setup").ended;
    expect({ code, installs: installs(stderr) }).toEqual({ code: 0, installs: 1 });
    expect(existsSync(join(root, "node_modules", "part", "package.json"))).toBe(true);
  });

  test("says what failed when npm refuses, and tries again next time", async () => {
    const packages = { "node_modules/a": { version: "1.0.0" } };
    write("package-lock.json", JSON.stringify({ lockfileVersion: 3, requires: true, packages }));
    write("package.json", '{ "name": "fixture", "version": "1.0.0", "dependencies": { "b": "1.0.0" } }');
    for (const _ of [1, 2]) {
      const { code, stderr } = await launch("setup").ended;
      expect(code).toBe(1);
      expect(stderr).toMatch("npm ci failed in . (exit code 1)");
    }
  });

  test("of several launches at once one does it", async () => {
    write("packages/kernels/build.mjs", build);
    const all = await Promise.all(Array.from({ length: 4 }, () => launch("setup").ended));
    expect(all.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect(all.reduce((sum, { stderr }) => sum + installs(stderr), 0)).toBe(1);
    expect(builds()).toBe(1);
    expect(existsSync(join(root, ".cache", "launch.lock"))).toBe(false);
  });

  test("takes over the lock of a launch that died", async () => {
    const { pid } = spawnSync(process.execPath, ["--version"]);
    write(".cache/launch.lock", String(pid));
    expect((await launch("setup").ended).code).toBe(0);
    expect(existsSync(join(root, ".cache", "launch.lock"))).toBe(false);
  });

  test("builds the kernels when a source, the build or the compiler has changed, and only then", async () => {
    write("packages/kernels/build.mjs", build);
    write("packages/kernels/assembly/deep/a.ts", "1");
    const buildsAfterSetup = async () => {
      expect(await launch("setup").ended).toMatchObject({ code: 0 });
      return builds();
    };
    expect(await buildsAfterSetup()).toBe(1);
    expect(await buildsAfterSetup()).toBe(1);
    write("packages/kernels/assembly/deep/a.ts", "2");
    expect(await buildsAfterSetup()).toBe(2);
    write("packages/kernels/build.mjs", `${build}\n`);
    expect(await buildsAfterSetup()).toBe(3);
    rmSync(join(root, "packages", "kernels", "dist"), { recursive: true });
    expect(await buildsAfterSetup()).toBe(4);
  });

  test("builds the console when a source, the client, the lockfile or the build has changed, and only then", async () => {
    const counting = 'import { appendFileSync } from "node:fs"; appendFileSync("console-builds", "x");';
    write("packages/console/build.mjs", counting);
    write("packages/console/src/main.tsx", "1");
    write("packages/client/src/client.ts", "1");
    const buildsAfterSetup = async () => {
      expect(await launch("setup").ended).toMatchObject({ code: 0 });
      return readFileSync(join(root, "console-builds"), "utf8").length;
    };
    expect(await buildsAfterSetup()).toBe(1);
    expect(await buildsAfterSetup()).toBe(1);
    write("packages/console/src/main.tsx", "2");
    expect(await buildsAfterSetup()).toBe(2);
    write("packages/client/src/client.ts", "2");
    expect(await buildsAfterSetup()).toBe(3);
    write("packages/console/build.mjs", `${counting}\n`);
    expect(await buildsAfterSetup()).toBe(4);
    expect(await buildsAfterSetup()).toBe(4);
  });

  test("a failed build leaves no stamp", async () => {
    write("packages/kernels/build.mjs", "process.exit(4);");
    for (const _ of [1, 2]) {
      const { code, stderr } = await launch("setup").ended;
      expect(code).toBe(1);
      expect(stderr).toMatch("Building the kernels failed (exit code 4)");
    }
  });
});
