// Where is nats-server?
//
// No npm package has it. It is QUIVER_NATS_SERVER, or on the PATH, or what `npm run nats` has fetched into the clone.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** Below 2.10.23 a killed server could lose a stream. */
export const leastVersion = "2.10.27";
/** From here on faults are mended that lost acknowledged messages. */
export const recommendedVersion = "2.12.5";

export type FoundServer = { readonly path: string; readonly version: string };

/** Where `npm run nats` puts it, in a directory of a clone. */
export const fetchedPath = (cache: string): string => join(cache, "nats", "usr", "sbin", "nats-server");

/** @param cache directory of fetched programs @returns why there is none, with what to do, or where it is */
export function findNatsServer(cache?: string): FoundServer | { readonly missing: string } {
  const { QUIVER_NATS_SERVER: given, PATH = "" } = process.env;
  if (given !== undefined && given !== "") return usable(given) ?? unusable(given);
  const places = PATH.split(delimiter).map((directory) => join(directory, "nats-server"));
  if (cache !== undefined) places.push(fetchedPath(cache));
  for (const path of places.filter((each) => existsSync(each))) {
    const found = usable(path);
    if (found !== undefined) return found;
  }
  return {
    missing: `nats-server ${leastVersion} or newer was not found: give its path in QUIVER_NATS_SERVER, install it (https://nats.io/download), or, in a clone on Debian or Ubuntu, run: npm run nats`,
  };
}

const unusable = (path: string) => ({
  missing: `QUIVER_NATS_SERVER is ${path}, which is no nats-server ${leastVersion} or newer`,
});

function usable(path: string): FoundServer | undefined {
  try {
    const text = execFileSync(path, ["--version"], { encoding: "utf8" });
    const [, version] = /v(\d+\.\d+\.\d+)/.exec(text) ?? [];
    if (version === undefined || compareVersions(version, leastVersion) < 0) return undefined;
    return { path, version };
  } catch {
    return undefined;
  }
}

/** Below 0 if `a` is older. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split(/[.-]/).map(Number));
  for (let i = 0; i < 3; i++) if (left[i] !== right[i]) return left[i] - right[i];
  return 0;
}
