// Where is nats-server, and if it is nowhere, how is it fetched?
//
//   npm run nats
//   npm run nats -- --suite sid        from another suite of Debian
//
// Debian's package is unpacked below .cache, and nothing is installed. It needs only a C library of 2.34, so that Debian 12 runs it, whose own
// nats-server is too old. The mirror is that of this system; lists and states of apt have directories of their own.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { fetchedPath, findNatsServer } from "../packages/cluster/src/dev/nats-server.ts";

const cache = resolve(import.meta.dirname, "../.cache");
const { values } = parseArgs({ options: { suite: { type: "string" } } });

const found = findNatsServer(cache);
if ("path" in found && values.suite === undefined) {
  console.log(`nats-server ${found.version}: ${found.path}`);
} else {
  const mirror = mirrorOf();
  if (mirror === undefined || !hasProgram("apt-get") || !hasProgram("dpkg-deb")) {
    console.error("missing" in found ? found.missing : "this system has no apt-get to fetch another one");
    process.exit(1);
  }
  fetchPackage(mirror, values.suite ?? "trixie");
  console.log(
    execFileSync(fetchedPath(cache), ["--version"], { encoding: "utf8" }).trim(),
    fetchedPath(cache),
  );
}

function hasProgram(name: string): boolean {
  try {
    execFileSync("which", [name], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** The address of Debian's packages in this system's own sources; undefined on another system. */
function mirrorOf(): string | undefined {
  const directory = "/etc/apt/sources.list.d";
  const files = [
    "/etc/apt/sources.list",
    ...(existsSync(directory) ? readdirSync(directory).map((name) => join(directory, name)) : []),
  ];
  for (const file of files.filter((each) => existsSync(each))) {
    const [, address] =
      /^(?:URIs:|deb(?: \[[^\]]*\])?)\s+(https?:\S*\/debian\/?)(?:\s|$)/m.exec(readFileSync(file, "utf8")) ??
      [];
    if (address !== undefined) return address;
  }
  return undefined;
}

function fetchPackage(mirror: string, suite: string): void {
  console.log(`fetching the package nats-server of Debian ${suite}`);
  const directory = join(cache, "nats");
  const apt = join(cache, "nats-apt");
  for (const each of ["lists/partial", "cache/archives/partial", "etc"])
    mkdirSync(join(apt, each), { recursive: true });
  const keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
  const signed = existsSync(keys) ? `[signed-by=${keys}] ` : "";
  const sources = join(apt, "sources.list");
  writeFileSync(sources, `deb ${signed}${mirror} ${suite} main\n`);
  writeFileSync(join(apt, "status"), "");
  const options = Object.entries({
    "Dir::Etc::sourcelist": sources,
    "Dir::Etc::sourceparts": "-",
    "Dir::State::lists": join(apt, "lists"),
    "Dir::State::status": join(apt, "status"),
    "Dir::Cache": join(apt, "cache"),
    "APT::Sandbox::User": "root",
  }).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
  const run = (program: string, args: string[]) => execFileSync(program, args, { cwd: apt, stdio: "pipe" });
  const retrying = [...options, "-o", "Acquire::Retries=3"];
  run("apt-get", [...retrying, "update"]);
  run("apt-get", [...retrying, "download", "nats-server"]);
  const archive = readdirSync(apt).find((name) => /^nats-server_.*\.deb$/.test(name));
  if (archive === undefined) throw new Error("apt-get has fetched no package");
  const unpacked = join(apt, "unpacked");
  run("dpkg-deb", ["-x", archive, unpacked]);
  rmSync(directory, { recursive: true, force: true });
  renameSync(unpacked, directory);
  rmSync(apt, { recursive: true, force: true });
}
