// Where do the programs of the rival servers come from?
//
// From Debian 13, which mmdebstrap installs in a directory below bench/.cache. It is the root directory of the rivals' processes, so that the
// packages of this system stay as they are. Debian 12 is too old: it has no pgvector, its Redis no vector sets, and its C library is older
// than what Chroma's binding in npm wants. Both steps need the rights of root; the servers run as "nobody".

import { execFileSync } from "node:child_process";
import { chownSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { atExit } from "../shared/exit.ts";
import { bytesBelow, inCache } from "../shared/files.ts";

const suite = "trixie";
const packages = ["postgresql-17", "postgresql-17-pgvector", "redis-server", "libstdc++6"];
/** User and group "nobody". */
const nobody = 65_534;

/** The root directory of the rivals' processes. */
export const debianRoot = inCache(`debian-${suite}`);

const isInstalled = (program: string): boolean => {
  try {
    execFileSync("which", [program], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

/** Installs Debian if it is missing; returns the reason why it is not there, or undefined. */
export function installDebian(): string | undefined {
  if (process.platform !== "linux") return "the rivals' servers run on Linux only";
  if (process.getuid?.() !== 0) return "the rivals' servers need root, whose directory is changed for them";
  if (existsSync(debianRoot)) return undefined;
  if (!isInstalled("mmdebstrap")) return "mmdebstrap is missing; install the Debian package of that name";
  console.log(`installing Debian ${suite} for the rivals`);
  const part = `${debianRoot}.part`;
  rmSync(part, { recursive: true, force: true });
  mkdirSync(join(part, ".."), { recursive: true });
  try {
    const include = `--include=${packages.join(",")}`;
    execFileSync("mmdebstrap", ["--variant=minbase", include, suite, part], { stdio: "pipe" });
  } catch (error) {
    return `mmdebstrap could not install Debian ${suite}: ${String(
      (error as { stderr?: unknown }).stderr ?? error,
    )
      .trim()
      .split("\n")
      .at(-1)}`;
  }
  renameSync(part, debianRoot);
  return undefined;
}

/** The version of an installed package. */
export const versionOf = (name: string): string =>
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder of dpkg-query.
  execFileSync("chroot", [debianRoot, "dpkg-query", "--show", "--showformat=${Version}", name], {
    encoding: "utf8",
  });

/** A directory that a rival may write to. */
export type RivalDirectory = {
  /** Its path here, and inside the root directory of the rivals. */
  readonly outside: string;
  readonly inside: string;
  /** Bytes of all files in it. */
  bytes(): number;
  remove(): void;
};

/** A new one. @param name only makes it recognisable */
export function rivalDirectory(name: string): RivalDirectory {
  const outside = mkdtempSync(join(debianRoot, "var/tmp", `${name}-`));
  chownSync(outside, nobody, nobody);
  const remove = () => rmSync(outside, { recursive: true, force: true });
  const forget = atExit(remove);
  return {
    outside,
    inside: `/${relative(debianRoot, outside)}`,
    bytes: () => bytesBelow(outside),
    remove() {
      forget();
      remove();
    },
  };
}

/**
 * The command that runs a program of Debian. The process that it starts becomes that program, and the kernel kills it when this process ends,
 * however it ends.
 */
export const inDebian = (program: string, args: readonly string[]): [command: string, args: string[]] => {
  const user = [
    "--reuid",
    String(nobody),
    "--regid",
    String(nobody),
    "--clear-groups",
    "--pdeathsig",
    "KILL",
  ];
  return ["chroot", [debianRoot, "setpriv", ...user, program, ...args]];
};
