// Which kinds of damage does the campaign cause?

import { closeSync, openSync, readdirSync, readSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { LmdbFile } from "@quiverdb/engine/storage/lmdb-file";
import { pageFlags, u16At } from "@quiverdb/engine/storage/lmdb-page";
import { verifyFile } from "@quiverdb/engine/storage/lmdb-verify";

/** Numbers of at least 0 and below 1. */
export type Random = () => number;

const damageKinds = ["bit", "bit", "bit", "bit", "zeros", "noise", "page of the same file"] as const;

export type Damage = {
  readonly kind: (typeof damageKinds)[number] | "file removed";
  /** Relative to the data directory. */
  readonly file: string;
  readonly at: number;
  readonly length: number;
};

const sectorBytes = 512;
const pageBytes = 4096;

/** Files with data: stores, their commit markers and spools, checkpoints of indexes, and snapshots with their entries. */
export function dataFiles(dataDir: string): string[] {
  return readdirSync(dataDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(dataDir, join(parentPath, name)))
    .filter(
      (name) => /(data\.(mdb|tip)|spool-\d+)$/.test(name) || /(^|\/)(checkpoints|snapshots)\//.test(name),
    )
    .sort();
}

/**
 * A place in a file. A store has many pages that are no longer read: so one third of the places is anywhere, one third in a page in use,
 * and one third in a branch page or at the start of the file, which are small but critical.
 */
function placeIn(path: string, size: number, unit: number, pick: (count: number) => number): number {
  const anywhere = () => Math.min(pick(Math.ceil(size / unit)) * unit, size - 1);
  if (!path.endsWith("data.mdb")) return anywhere();
  const sort = pick(3);
  if (sort === 0) return anywhere();
  const file = new LmdbFile(dirname(path));
  try {
    const tables = [...file.tables.keys()];
    const { used } = verifyFile(file, tables, () => {});
    const isBranch = (number: number) => u16At(file.page(number) as Uint8Array, 18) === pageFlags.branch;
    const pages = Array.from({ length: Math.floor(size / pageBytes) }, (_, number) => number).filter(
      (number) => (number < 2 && sort === 2) || (used.has(number) && (sort === 1 || isBranch(number))),
    );
    const page = pages[pick(pages.length)];
    return page * pageBytes + pick(page < 2 ? 1 + Math.floor(200 / unit) : pageBytes / unit) * unit;
  } finally {
    file.close();
  }
}

/** Damages one place of one file; returns its description. */
export function damage(dataDir: string, random: Random): Damage {
  const pick = (count: number) => Math.floor(random() * count);
  // Random files, with the stores of collections three times as likely as the rest.
  const files = dataFiles(dataDir).flatMap((name) =>
    /collections.*mdb$/.test(name) ? [name, name, name] : [name],
  );
  const file = files[pick(files.length)];
  const path = join(dataDir, file);
  const { size } = statSync(path);
  // A missing store file is tested elsewhere; here it would dominate the damage.
  if (file.startsWith("snapshots") && pick(6) === 0) {
    rmSync(path);
    return { kind: "file removed", file, at: 0, length: size };
  }
  const kind = damageKinds[pick(damageKinds.length)];
  const unit = kind === "bit" ? 1 : kind === "page of the same file" ? pageBytes : sectorBytes;
  const at = placeIn(path, size, unit, pick);
  const length = Math.min(unit, size - at);
  const handle = openSync(path, "r+");
  try {
    const bytes = new Uint8Array(length);
    readSync(
      handle,
      bytes,
      0,
      length,
      kind === "page of the same file" ? pick(Math.floor(size / unit) || 1) * unit : at,
    );
    if (kind === "bit") bytes[0] ^= 1 << pick(8);
    if (kind === "zeros") bytes.fill(0);
    if (kind === "noise") for (let i = 0; i < length; i++) bytes[i] = pick(256);
    writeSync(handle, bytes, 0, length, at);
  } finally {
    closeSync(handle);
  }
  return { kind, file, at, length };
}
