// Where does an LMDB file begin, and what is its newest state?
//
// Pages 0 and 1 are its two beginnings, written in turn: transaction n writes page n % 2. So they always are of two transactions
// that follow each other, and a changed number shows:
//
//   u32 magic | u32 version | u64 address | u64 map size | tree of the free pages | tree of the tables | u64 last page | u64 txn
//   tree      u32 (page size) | u16 flags | u16 depth | u64 branches | u64 leaves | u64 overflow pages | u64 entries | u64 root

import { crc32 } from "node:zlib";
import { headerBytes, pageFlags, u16At, u32At, u64At } from "./lmdb-page.ts";

/** The root of a table, as it was written. */
export type Tree = {
  readonly name: string;
  readonly flags: number;
  /** Levels of pages; 0: the table is empty. */
  readonly depth: number;
  readonly branches: number;
  readonly leaves: number;
  readonly overflows: number;
  readonly entries: number;
  /** -1: the table is empty. */
  readonly root: number;
  /** No page of the tree is younger. */
  readonly txn: number;
};

/** A state of the file. */
export type Meta = {
  readonly pageBytes: number;
  readonly lastPage: number;
  readonly txn: number;
  readonly free: Tree;
  readonly tables: Tree;
  /** Over what the beginning says; as in the tip (lmdb-tip.ts). */
  readonly checksum: number;
};

/** Which state was the newest one that was durable (lmdb-tip.ts). */
export type Tip = { readonly txn: number; readonly checksum: number };

/** Of a beginning, with the header of its page. */
export const beginningBytes = 160;
export const txnAt = 152;

/** The checksum over what a beginning says: its trees, last page and transaction. The size of the map may change by itself. */
export const checksumOf = (beginning: Uint8Array): number => crc32(beginning.subarray(48, beginningBytes));

/** Bytes of a tree's root as it is stored. */
export const treeBytes = 48;
const magic = 0xbeefc0de;
const dataVersion = 2;
const freeFlags = 8;
const mapBytesMax = 2 ** 45;
const unwrittenMax = 64 * 2 ** 20;
const pageSizes = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

/** Bytes of the file, or undefined where it ends before. */
export type ReadBytes = (at: number, length: number) => Uint8Array | undefined;

/** @param txn of the state that the tree is part of */
export function readTree(bytes: Uint8Array, at: number, name: string, txn: number): Tree {
  const root = u64At(bytes, at + 40);
  return {
    name,
    flags: u16At(bytes, at + 4),
    depth: u16At(bytes, at + 6),
    branches: u64At(bytes, at + 8),
    leaves: u64At(bytes, at + 16),
    overflows: u64At(bytes, at + 24),
    entries: u64At(bytes, at + 32),
    // All ones stand for no page.
    root: root > Number.MAX_SAFE_INTEGER ? -1 : root,
    txn,
  };
}

/**
 * The newest state; undefined where neither beginning can be used.
 * @param fileBytes the file's size
 * @param tip what was written beside the file of its newest state, before its beginnings are read
 */
export function readMeta(
  read: ReadBytes,
  fileBytes: number,
  tip: Tip | undefined,
  onProblem: (problem: string, page?: number) => void,
): Meta | undefined {
  const pageBytes = findPageBytes(read);
  const metas = [0, 1].flatMap((number) => {
    const meta = readOne(read, number, pageBytes, fileBytes);
    if (typeof meta !== "string") return [meta];
    onProblem(`beginning ${number} of the file ${meta}`, number);
    return [];
  });
  if (metas.length === 2) {
    const [even, odd] = metas.map(({ txn }) => txn);
    const arePair = even + odd === 0 || (Math.abs(even - odd) === 1 && even % 2 === 0);
    if (!arePair)
      onProblem(
        `the beginnings of the file are of transactions ${even} and ${odd}; expected are two that follow each other, the even one first`,
      );
  }
  // The page of the tables is written by every transaction, so it knows which beginning is really the newer one.
  const rootTxn = ({ tables }: Meta) => {
    const root = tables.root < 2 ? undefined : read(tables.root * pageBytes, headerBytes);
    return root && u64At(root, 8);
  };
  const ageOf = (meta: Meta) => Math.min(meta.txn, rootTxn(meta) ?? meta.txn);
  const told = tip && metas.find(({ txn, checksum }) => txn === tip.txn && checksum === tip.checksum);
  const newest = metas.toSorted((a, b) => b.txn - a.txn)[0];
  if (newest === undefined) return undefined;
  const problem = problemOf(newest, rootTxn(newest), told, tip);
  if (problem === undefined) return newest;
  onProblem(problem);
  return told ?? metas.sort((a, b) => ageOf(b) - ageOf(a))[0];
}

/** Why the beginning of the greatest transaction is not the newest state. */
function problemOf(
  { txn }: Meta,
  rootTxn: number | undefined,
  told: Meta | undefined,
  tip: Tip | undefined,
): string | undefined {
  if (rootTxn !== undefined && rootTxn !== txn)
    return `the newest state is of transaction ${txn}, and the page of its tables of ${rootTxn}`;
  if (tip === undefined || told?.txn === txn) return undefined;
  if (txn < tip.txn) return `the newest state is of transaction ${txn}; ${tip.txn} was there, and is lost`;
  if (txn === tip.txn) return `the state of transaction ${txn} is not the one that was written`;
  // A kill leaves one transaction that the tip does not know yet, and the one before it as it was; a power loss may leave more.
  return txn === tip.txn + 1 && told === undefined
    ? `the state of transaction ${tip.txn} is not the one that was written`
    : undefined;
}

/** The size of a page, by where the second beginning is. */
export function findPageBytes(read: ReadBytes): number {
  const isBeginning = (at: number) => {
    const bytes = read(at, 64);
    return bytes !== undefined && u32At(bytes, 24) === magic;
  };
  const first = read(0, 64);
  const said = first === undefined ? 0 : u32At(first, 48);
  if (pageSizes.includes(said) && isBeginning(said)) return said;
  return pageSizes.find(isBeginning) ?? 4096;
}

/** A beginning, or what is wrong with it. */
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
  // Pages that were taken and given back in one transaction are not written, so the file may end before its last page, but not by far.
  if (lastPage < 1 || lastPage * pageBytes > 2 * fileBytes + unwrittenMax)
    return `has last page ${lastPage}, in a file of ${fileBytes} bytes`;
  return { pageBytes, lastPage, txn, free, tables, checksum: checksumOf(bytes) };
}
