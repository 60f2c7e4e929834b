// What can a disk contain after a power loss, given what was written and synced?
//
// The log (disk-shim.c) is replayed up to the moment of the loss. Synced data is present. Everything else may be present in part:
//
//   - a sector of 512 bytes is as it was at its last sync, or as after any later write to it; sectors are written in any order;
//   - a file is as long as at its last sync, or as after any later change of its length;
//   - a name in a directory is there when the directory was synced after it was made; a later one may be or not.
//
// The sync of a file does not cover its name, and the sync of a directory does not cover its files: that is POSIX, and less than most file
// systems guarantee.
//
// LMDB writes both meta pages of a store completely only once, in one call, and later only the part after their headers. Every replayed
// write to them is checked against this rule: if an image has an impossible meta page, the log shows whether the store wrote it or the
// simulation produced it.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

const kinds = [
  "",
  "create",
  "write",
  "sync",
  "range",
  "truncate",
  "rename",
  "unlink",
  "mkdir",
  "rmdir",
  "mapped",
] as const;
const headBytes = 56;
const sector = 512;
/** A system call with O_DSYNC syncs at least one page. */
const page = 4096;

export type LogRecord = {
  kind: (typeof kinds)[number];
  inode: bigint;
  offset: number;
  length: number;
  covered: number;
  one: string;
  two: string;
  bytes: Uint8Array;
  /** Where the record ends in the log. */
  position: number;
};

/** Reads a log. A record that is cut off at its end is left out. */
export function readLog(path: string): LogRecord[] {
  const log = readFileSync(path);
  const records: LogRecord[] = [];
  for (let at = 0; at + headBytes <= log.length; ) {
    const number = (i: number) => Number(log.readBigInt64LE(at + 8 * i));
    const kind = kinds[number(0)];
    const [length, oneLength, twoLength] = [number(3), number(5), number(6)];
    const textsAt = at + headBytes;
    const bytesAt = textsAt + oneLength + twoLength;
    const position = bytesAt + (kind === "write" ? length : 0);
    if (position > log.length) break;
    records.push({
      kind,
      inode: log.readBigUInt64LE(at + 8),
      offset: number(2),
      length,
      covered: number(4),
      one: log.toString("utf8", textsAt, textsAt + oneLength),
      two: log.toString("utf8", textsAt + oneLength, bytesAt),
      bytes: log.subarray(bytesAt, position),
      position,
    });
    at = position;
  }
  return records;
}

/** How one image treats data that was not synced. */
export type Fate = "dropped" | "kept" | "cut" | "some writes" | "torn";
export const fates: readonly Fate[] = ["dropped", "kept", "cut", "some writes", "torn"];

type Choice = { fate: Fate; random: () => number; cutAt: number };

/** Selects which changes, given by their positions in the log, are present. Returns the last of these; -1 for none. */
function lastKept(positions: readonly number[], { fate, random, cutAt }: Choice, salt: number): number {
  if (fate === "kept") return positions.length - 1;
  if (fate === "dropped") return -1;
  if (fate === "torn") return Math.floor(random() * (positions.length + 1)) - 1;
  let last = -1;
  for (const [i, position] of positions.entries())
    if (fate === "cut" ? position <= cutAt : isKept(position, salt)) last = i;
  return last;
}

/** The same for all sectors of one write of one image. */
function isKept(position: number, salt: number): boolean {
  return (Math.imul(position ^ salt, 0x9e3779b1) >>> 16) % 2 === 0;
}

class File {
  #synced = new Uint8Array(0);
  #syncedLength = 0;
  #now = new Uint8Array(0);
  #length = 0;
  readonly #sectors = new Map<number, { position: number; bytes: Uint8Array }[]>();
  #lengths: { position: number; length: number }[] = [];

  #grow(length: number): void {
    if (length <= this.#now.length) return;
    const now = new Uint8Array(Math.max(length, 2 * this.#now.length, 65_536));
    now.set(this.#now);
    this.#now = now;
    const synced = new Uint8Array(now.length);
    synced.set(this.#synced);
    this.#synced = synced;
  }

  write(offset: number, bytes: Uint8Array, position: number): void {
    const end = offset + bytes.length;
    this.#grow(Math.ceil(end / page) * page);
    this.#now.set(bytes, offset);
    for (let i = Math.floor(offset / sector); i * sector < end; i++) this.#note(i, position);
    if (end > this.#length) this.#resize(end, position);
  }

  truncate(length: number, position: number): void {
    this.#grow(Math.ceil(length / page) * page);
    if (length < this.#length) {
      this.#now.fill(0, length);
      for (let i = Math.floor(length / sector); i * sector < this.#length; i++) this.#note(i, position);
    }
    this.#resize(length, position);
  }

  #note(i: number, position: number): void {
    const bytes = this.#now.slice(i * sector, (i + 1) * sector);
    const versions = this.#sectors.get(i);
    if (versions) versions.push({ position, bytes });
    else this.#sectors.set(i, [{ position, bytes }]);
  }

  #resize(length: number, position: number): void {
    this.#length = length;
    this.#lengths.push({ position, length });
  }

  /** Marks everything that was written before a position of the log as durable. */
  sync(before: number): void {
    for (const i of [...this.#sectors.keys()]) this.#syncSector(i, before);
    this.#syncLength(before);
  }

  /** Marks the pages of a range, and the file length that they need, as durable. */
  syncRange(offset: number, length: number, before: number): void {
    const first = Math.floor(offset / page) * (page / sector);
    const end = Math.ceil((offset + length) / page) * (page / sector);
    for (let i = first; i < end; i++) this.#syncSector(i, before);
    this.#syncLength(before);
  }

  #syncSector(i: number, before: number): void {
    const versions = this.#sectors.get(i);
    if (versions === undefined) return;
    const covered = versions.filter(({ position }) => position <= before);
    const last = covered.at(-1);
    if (last) this.#synced.set(last.bytes, i * sector);
    if (covered.length === versions.length) this.#sectors.delete(i);
    else this.#sectors.set(i, versions.slice(covered.length));
  }

  #syncLength(before: number): void {
    this.#syncedLength =
      this.#lengths.filter(({ position }) => position <= before).at(-1)?.length ?? this.#syncedLength;
    this.#lengths = this.#lengths.filter(({ position }) => position > before);
  }

  get isPending(): boolean {
    return this.#sectors.size > 0 || this.#lengths.length > 0;
  }

  image(choice: Choice, salt: number): Uint8Array {
    const lengthAt = lastKept(
      this.#lengths.map(({ position }) => position),
      choice,
      salt,
    );
    const length = lengthAt < 0 ? this.#syncedLength : this.#lengths[lengthAt].length;
    const bytes = this.#synced.slice();
    for (const [i, versions] of this.#sectors) {
      const kept = lastKept(
        versions.map(({ position }) => position),
        choice,
        salt,
      );
      if (kept >= 0) bytes.set(versions[kept].bytes, i * sector);
    }
    return bytes.subarray(0, length);
  }
}

type Node = File | Directory;

class Directory {
  readonly now = new Map<string, Node>();
  readonly #synced = new Map<string, Node>();
  #changes: { position: number; names: readonly (readonly [string, Node | null])[] }[] = [];

  change(names: readonly (readonly [string, Node | null])[], position: number): void {
    apply(this.now, names);
    this.#changes.push({ position, names });
  }

  sync(before: number): void {
    for (const { position, names } of this.#changes) if (position <= before) apply(this.#synced, names);
    this.#changes = this.#changes.filter(({ position }) => position > before);
  }

  get isPending(): boolean {
    return this.#changes.length > 0;
  }

  image(choice: Choice, salt: number): Map<string, Node> {
    const image = new Map(this.#synced);
    for (const { position, names } of this.#changes) {
      const { fate, random, cutAt } = choice;
      const isThere =
        fate === "kept" ||
        (fate === "cut" && position <= cutAt) ||
        (fate === "some writes" && isKept(position, salt)) ||
        (fate === "torn" && random() < 0.5);
      if (isThere) apply(image, names);
    }
    return image;
  }
}

function apply(entries: Map<string, Node>, names: readonly (readonly [string, Node | null])[]): void {
  for (const [name, node] of names) {
    if (node === null) entries.delete(name);
    else entries.set(name, node);
  }
}

/**
 * The end of a store's two meta pages, and the part of each that commits write: everything after the header with magic number, version and
 * address.
 */
const metaEnd = 2 * page;
const [changedFrom, changedEnd] = [40, 512];

/** @throws if a store writes to its meta pages in a way that LMDB never does */
function requireMetaWrite(offset: number, bytes: Uint8Array, position: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isFirst =
    offset === 0 &&
    bytes.length === metaEnd &&
    view.getBigUint64(0, true) === 0n &&
    view.getBigUint64(page, true) === 1n;
  const from = offset % page;
  const isCommit = from >= changedFrom && from + bytes.length <= changedEnd;
  if (!isFirst && !isCommit)
    throw new Error(
      `the store writes ${bytes.length} bytes at ${offset} of its meta pages (log at ${position}): expected is the first writing of both, or what stands behind a header`,
    );
}

/** The state of a disk up to the replayed position of the log. */
export class Disk {
  readonly #root: string;
  readonly #directory = new Directory();
  readonly #nodes = new Map<bigint, Node>();
  /** The position of the last replayed record; only unsynced writes from here on matter. */
  position = 0;

  /** @param root the watched directory, which is there */
  constructor(root: string) {
    this.#root = root;
  }

  #directoryOf(path: string): Directory {
    const parent = dirname(path);
    if (parent === this.#root) return this.#directory;
    const found = this.#directoryOf(parent).now.get(basename(parent));
    if (!(found instanceof Directory)) throw new Error(`the log has no directory ${parent}`);
    return found;
  }

  play(record: LogRecord): void {
    const { kind, inode, position, one, two } = record;
    this.position = position;
    const name = basename(one);
    switch (kind) {
      case "create":
      case "mkdir": {
        const node = kind === "create" ? new File() : new Directory();
        this.#nodes.set(inode, node);
        this.#directoryOf(one).change([[name, node]], position);
        return;
      }
      case "unlink":
      case "rmdir":
        this.#directoryOf(one).change([[name, null]], position);
        return;
      case "rename": {
        const from = this.#directoryOf(one);
        if (from !== this.#directoryOf(two)) throw new Error("a name moves between directories");
        from.change(
          [
            [name, null],
            [basename(two), from.now.get(name) as Node],
          ],
          position,
        );
        return;
      }
      case "sync":
        (this.#nodes.get(inode) ?? this.#directory).sync(record.covered);
        return;
      default:
        this.#playOnFile(record);
    }
  }

  #playOnFile({ kind, inode, offset, length, bytes, position }: LogRecord): void {
    const file = this.#nodes.get(inode);
    if (!(file instanceof File)) throw new Error(`the log has no file ${inode}`);
    if (kind === "write") {
      if (offset < metaEnd && length > 0 && this.#isStore(file)) requireMetaWrite(offset, bytes, position);
      file.write(offset, bytes, position);
    } else if (kind === "truncate") file.truncate(length, position);
    else if (kind === "range") file.syncRange(offset, length, position);
    else if (kind === "mapped" && this.#isStore(file))
      throw new Error("a store is mapped for writing: the shim does not see what is written");
  }

  #isStore(file: File): boolean {
    return [...this.#everyName()].some(([name, node]) => node === file && name === "data.mdb");
  }

  *#everyName(directory = this.#directory): Generator<[string, Node]> {
    for (const [name, node] of directory.now) {
      yield [name, node];
      if (node instanceof Directory) yield* this.#everyName(node);
    }
  }

  /** Writes a possible state of the disk into an empty folder. @returns whether any part of it was random */
  image(folder: string, fate: Fate, random: () => number): boolean {
    const choice = { fate, random, cutAt: this.position - Math.floor(random() * 40_000) };
    const salt = Math.floor(random() * 2 ** 31);
    return this.#write(this.#directory, folder, choice, salt);
  }

  #write(directory: Directory, folder: string, choice: Choice, salt: number): boolean {
    let isChance = directory.isPending;
    for (const [name, node] of directory.image(choice, salt)) {
      const path = join(folder, name);
      if (node instanceof Directory) {
        mkdirSync(path);
        isChance = this.#write(node, path, choice, salt) || isChance;
      } else {
        isChance ||= node.isPending;
        writeFileSync(path, node.image(choice, salt));
      }
    }
    return isChance;
  }
}
