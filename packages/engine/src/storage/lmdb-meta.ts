// Which state of an LMDB file is the newest, according to its two meta pages?
//
// Pages 0 and 1 are the meta pages. Transaction n writes page n % 2. So the two pages always belong to consecutive transactions,
// and a corrupted transaction number shows:
//
//   u32 magic | u32 version | u64 address | u64 map size | tree of the free pages | tree of the tables | u64 last page | u64 txn
//   tree      u32 (page size) | u16 flags | u16 depth | u64 branches | u64 leaves | u64 overflow pages | u64 entries | u64 root

import { closeSync, constants, openSync, readFileSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { invariant } from "../base/invariant.ts";
import { headerBytes, pageFlags, u16At, u32At, u64At } from "./lmdb-page.ts";

/** The root of a table, as it is stored. */
export type Tree = {
  readonly name: string;
  readonly flags: number;
  /** Levels of pages; 0 for an empty table. */
  readonly depth: number;
  readonly branches: number;
  readonly leaves: number;
  readonly overflows: number;
  readonly entries: number;
  /** Page number of the root; -1 for an empty table. */
  readonly root: number;
  /** The transaction of the state; no later one wrote a page of this tree. */
  readonly txn: number;
};

/** A state of the file, as one meta page describes it. */
export type Meta = {
  readonly pageBytes: number;
  readonly lastPage: number;
  readonly txn: number;
  readonly free: Tree;
  readonly tables: Tree;
  /** CRC-32 over the content of the meta page, the same as in the commit marker. */
  readonly checksum: number;
};

/** Identifies the newest durable state. */
type CommitMarker = { readonly txn: number; readonly checksum: number };

/** Bytes of a meta page that carry data, including the page header. */
const metaPageBytes = 160;
const txnAt = 152;

/** The checksum over the trees, last page and transaction of a meta page. The map size stays out, because it can change without a commit. */
const checksumOf = (metaPage: Uint8Array): number => crc32(metaPage.subarray(48, metaPageBytes));

/** Bytes of a tree's root as it is stored. */
export const treeBytes = 48;
const magic = 0xbeefc0de;
const dataVersion = 2;
const freeFlags = 8;
const mapBytesMax = 2 ** 45;
const unwrittenMax = 64 * 2 ** 20;
const pageSizes = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

/** Reads bytes of the file; undefined if the file ends before. */
export type ReadBytes = (at: number, length: number) => Uint8Array | undefined;

/** @param txn the transaction of the state to which the tree belongs */
export function readTree(bytes: Uint8Array, at: number, name: string, txn: number): Tree {
  invariant(at + treeBytes <= bytes.length, () => `${bytes.length} bytes have no tree at ${at}`);
  const root = u64At(bytes, at + 40);
  return {
    name,
    flags: u16At(bytes, at + 4),
    depth: u16At(bytes, at + 6),
    branches: u64At(bytes, at + 8),
    leaves: u64At(bytes, at + 16),
    overflows: u64At(bytes, at + 24),
    entries: u64At(bytes, at + 32),
    // All ones mean: no page.
    root: root > Number.MAX_SAFE_INTEGER ? -1 : root,
    txn,
  };
}

/**
 * The newest state; undefined if neither meta page is usable.
 * @param fileBytes the file's size
 * @param marker the commit marker, which the caller must have read before the meta pages
 */
export function readMeta(
  read: ReadBytes,
  fileBytes: number,
  marker: CommitMarker | undefined,
  onProblem: (problem: string, page?: number) => void,
): Meta | undefined {
  const pageBytes = findPageBytes(read);
  const metas = [0, 1].flatMap((number) => {
    const meta = readOne(read, number, pageBytes, fileBytes);
    if (typeof meta !== "string") return [meta];
    onProblem(`meta page ${number} of the file ${meta}`, number);
    return [];
  });
  if (metas.length === 2) {
    const [even, odd] = metas.map(({ txn }) => txn);
    const arePair = even + odd === 0 || (Math.abs(even - odd) === 1 && even % 2 === 0);
    if (!arePair)
      onProblem(
        `the meta pages of the file have the transactions ${even} and ${odd}; expected consecutive ones, the even one first`,
      );
  }
  // Every transaction writes the root page of the table list, so the transaction in that page shows which meta page really is newer.
  const rootTxn = ({ tables }: Meta) => {
    const root = tables.root < 2 ? undefined : read(tables.root * pageBytes, headerBytes);
    return root && u64At(root, 8);
  };
  const ageOf = (meta: Meta) => Math.min(meta.txn, rootTxn(meta) ?? meta.txn);
  const marked =
    marker && metas.find(({ txn, checksum }) => txn === marker.txn && checksum === marker.checksum);
  const newest = metas.toSorted((a, b) => b.txn - a.txn)[0];
  if (newest === undefined) return undefined;
  const problem = problemOf(newest, rootTxn(newest), marked, marker);
  if (problem === undefined) return newest;
  onProblem(problem);
  return marked ?? metas.sort((a, b) => ageOf(b) - ageOf(a))[0];
}

/** Why the meta page of the greater transaction is not the newest state. */
function problemOf(
  { txn }: Meta,
  rootTxn: number | undefined,
  marked: Meta | undefined,
  marker: CommitMarker | undefined,
): string | undefined {
  if (rootTxn !== undefined && rootTxn !== txn)
    return `the newest state has transaction ${txn}, but the root page of its tables has transaction ${rootTxn}`;
  if (marker === undefined || marked?.txn === txn) return undefined;
  if (txn < marker.txn)
    return `the newest state has transaction ${txn}, but transaction ${marker.txn} was committed and is lost`;
  if (txn === marker.txn) return `the state of transaction ${txn} is not the one that was written`;
  // After a kill the file can be one transaction ahead of its marker. Then the state that the marker names must still be in the other
  // meta page. After a power loss the file can be further ahead.
  return txn === marker.txn + 1 && marked === undefined
    ? `the state of transaction ${marker.txn} is not the one that was written`
    : undefined;
}

/** The page size, found by locating the second meta page. */
export function findPageBytes(read: ReadBytes): number {
  const isMetaPage = (at: number) => {
    const bytes = read(at, 64);
    return bytes !== undefined && u32At(bytes, 24) === magic;
  };
  const first = read(0, 64);
  const said = first === undefined ? 0 : u32At(first, 48);
  if (pageSizes.includes(said) && isMetaPage(said)) return said;
  return pageSizes.find(isMetaPage) ?? 4096;
}

/** A meta page, or a description of its fault. */
function readOne(read: ReadBytes, number: number, pageBytes: number, fileBytes: number): Meta | string {
  const bytes = read(number * pageBytes, pageBytes);
  if (bytes === undefined) return "is cut off";
  const lastPage = u64At(bytes, 144);
  const txn = u64At(bytes, txnAt);
  const free = readTree(bytes, 48, "(free pages)", txn);
  const tables = readTree(bytes, 96, "(tables)", txn);
  const found: [what: string, is: number, mustBe: number][] = [
    ["page number", u64At(bytes, 0), number],
    ["flags", u16At(bytes, 18), pageFlags.meta],
    ["magic number", u32At(bytes, 24), magic],
    ["version", u32At(bytes, 28), dataVersion],
    ["address", u64At(bytes, 32), 0],
    ["page size", u32At(bytes, 48), pageBytes],
    ["flags of the free pages", free.flags, freeFlags],
    ["flags of the tables", tables.flags, 0],
  ];
  const wrong = found.find(([, is, mustBe]) => is !== mustBe);
  if (wrong !== undefined) return `has ${wrong[0]} ${wrong[1]}; expected is ${wrong[2]}`;
  const mapBytes = u64At(bytes, 40);
  if (mapBytes > mapBytesMax) return `has map size ${mapBytes}; expected is at most ${mapBytesMax}`;
  // LMDB does not write pages that one transaction both allocates and frees. So the file may end before its last page, but not long before.
  if (lastPage < 1 || lastPage * pageBytes > 2 * fileBytes + unwrittenMax)
    return `has last page ${lastPage}, in a file of ${fileBytes} bytes`;
  return { pageBytes, lastPage, txn, free, tables, checksum: checksumOf(bytes) };
}

// ---- Which state of a store's file was the newest durable one?
//
// A user who puts an older copy of a file in place of the newest, or whose meta page has a flipped bit, is told so, and not served old data.
//
// LMDB has no checksum over its two meta pages and picks the one with the greater transaction number. A flipped bit there can silently
// bring back the previous state, or point LMDB at the wrong pages. So after each commit the store writes a *commit marker* beside its
// file: the transaction number and a checksum over the meta page. The marker is not synced. After a power loss it may name an older
// transaction, but never one that is not durable. If the newest state in the file is older than the marker, or differs from the state
// that the marker names, the file is damaged.
//
//   data.tip   u64 magic | u64 transaction | u32 CRC-32 of the meta page | u32 CRC-32 of the 20 bytes before

/** "quivertp". */
const markerMagic = Buffer.from("quivertp");
const markerBytes = 24;
export const commitMarkerFile = (directory: string): string => join(directory, "data.tip");

/** The commit marker beside a store's file; undefined if there is none; a string that describes the problem if it is damaged. */
export function readCommitMarker(directory: string): CommitMarker | string | undefined {
  let bytes: Buffer;
  try {
    bytes = readFileSync(commitMarkerFile(directory));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  // A power loss before its first sync can leave an empty file, or one full of zeros.
  if (bytes.every((byte) => byte === 0)) return undefined;
  const isWhole =
    bytes.length === markerBytes &&
    bytes.subarray(0, 8).equals(markerMagic) &&
    u32At(bytes, 20) === crc32(bytes.subarray(0, 20));
  if (!isWhole) return "the commit marker data.tip fails its checksum";
  return { txn: u64At(bytes, 8), checksum: u32At(bytes, 16) };
}

/** Writes the commit marker. Used only by the store's one writer, and only when the newest state is durable. */
export class CommitMarkerWriter {
  readonly #data: number;
  readonly #marker: number;
  /** Byte offset of the second meta page. */
  readonly #oddAt: number;
  readonly #metaPages = [new Uint8Array(metaPageBytes), new Uint8Array(metaPageBytes)];
  readonly #bytes = Buffer.alloc(markerBytes);

  /** @throws the error of the system */
  constructor(directory: string) {
    this.#data = openSync(join(directory, "data.mdb"), "r");
    try {
      this.#oddAt = findPageBytes((at, length) => {
        const bytes = new Uint8Array(length);
        return readSync(this.#data, bytes, 0, length, at) === length ? bytes : undefined;
      });
      this.#marker = openSync(commitMarkerFile(directory), constants.O_RDWR | constants.O_CREAT, 0o600);
    } catch (error) {
      closeSync(this.#data);
      throw error;
    }
    markerMagic.copy(this.#bytes);
  }

  /** @throws the system's error; the store is unchanged, and its marker still names an older transaction */
  write(): void {
    const [even, odd] = this.#metaPages;
    const read =
      readSync(this.#data, even, 0, metaPageBytes, 0) +
      readSync(this.#data, odd, 0, metaPageBytes, this.#oddAt);
    invariant(read === 2 * metaPageBytes, () => `the meta pages of a committed store have ${read} bytes`);
    const newest = u64At(even, txnAt) > u64At(odd, txnAt) ? even : odd;
    const bytes = this.#bytes;
    bytes.set(newest.subarray(txnAt, txnAt + 8), 8);
    bytes.writeUInt32LE(checksumOf(newest), 16);
    bytes.writeUInt32LE(crc32(bytes.subarray(0, 20)), 20);
    writeSync(this.#marker, bytes, 0, markerBytes, 0);
  }

  close(): void {
    closeSync(this.#data);
    closeSync(this.#marker);
  }
}
