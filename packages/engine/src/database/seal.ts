// May a store be opened without reading all of it first?
//
// Verifying a store takes time in proportion to its size (set-aside.ts): seconds for a million vectors. A database that is closed in
// order seals its stores: beside each a file says how long `data.mdb` was and when it was last changed. The next start breaks the seal before it
// opens the store. A store without a seal, as after a crash, or whose file is not what the seal says, as when somebody has
// written to it or it was copied, is verified.
//
// What changes a disk's contents without telling the file system escapes that: `quiver check` reads everything. Where such damage
// ends the process, the seal is broken by then, and the next start verifies.

import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { syncDirectory } from "../runtime/data-directory.ts";

const sealFile = (directory: string): string => join(directory, "sealed");

/** What a file was when its store was closed; every change of the file changes it. */
function stateOf(directory: string): string {
  const { size, mtimeNs, ctimeNs, ino } = statSync(join(directory, "data.mdb"), { bigint: true });
  return `${size} ${mtimeNs} ${ctimeNs} ${ino}`;
}

/** Seals a store that nobody has open. @throws what the system says */
export function writeSeal(directory: string): void {
  writeFileSync(sealFile(directory), stateOf(directory), { mode: 0o600, flush: true });
}

/** Breaks a store's seal, durably, before the store is opened; returns whether the store is as it was when it was sealed. */
export function breakSeal(directory: string): boolean {
  let sealed: string;
  let state: string;
  try {
    sealed = readFileSync(sealFile(directory), "utf8");
    state = stateOf(directory);
  } catch {
    // No seal, or no store: whoever opens it finds out.
    return false;
  }
  rmSync(sealFile(directory));
  syncDirectory(directory);
  return sealed === state;
}
