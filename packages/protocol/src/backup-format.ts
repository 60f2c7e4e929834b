// What blocks does a backup file consist of?
//
//   prefix   "QUIVERBK" | u32 format | u32 CRC-32 of the 12 bytes before
//   block    u8 kind | u8 compression (0 none, 1 zstd) | u16 0 | u32 bytes in the file | u32 bytes unpacked | u32 rows
//            | u32 CRC-32 of the 16 bytes before and of the block's bytes in the file | bytes
//
// Numbers are little-endian unless said otherwise. Blocks stand in this order, any number of kinds 2 to 4 and 6:
//
//   1 header     JSON, never compressed: collection, indexes, version, hash, since, first_ordinal, next_ordinal, live, dense, sparse, text,
//                next_transaction, sequence and epoch of the last log entry (absent in older files: 0), created_ms
//   2 versions   u53 version (big-endian, 8 bytes) | hash (32) | u53 milliseconds | u53 live vectors | u32 first ordinal | u32 opened (big-endian)
//   3 closed     u53 version | u32 part (both big-endian) | u32 bytes | ordinals, u32 each
//   7 gone       u53 version | u32 part (both big-endian) | u32 bytes | ids of deleted records, each after its length (u16)
//   4 records    u32 ordinal (big-endian) | u32 bytes | record | u32 bytes | dense values, f32 each; by ascending ordinal
//   6 past       u32 ordinal (big-endian) | u32 bytes | u53 died (big-endian), record | u32 bytes | dense values; by ascending ordinal
//   5 end        JSON: sha256 of all bytes before this block
//
// A program can identify a file by its header, without reading all of it. A record is laid out as in engine/collection/record.ts. A block is
// compressed if that makes it smaller. An incremental file has `since` (version and hash), the versions and closed ordinals after it, and the
// records with ordinals from `first_ordinal` on. Past records are those that readable earlier versions need (in an incremental file: that were
// closed since); then the header has `history`, which says which versions these are, and the tags.

/** Incremented when the format or the meaning of any part changes. Files of a newer format are rejected. */
export const backupFormatNumber = 1;

export const backupMagic = "QUIVERBK";

export const backupPrefixBytes = 16;
export const blockHeadBytes = 20;

/** Kinds of blocks, in the order in which they appear in a file. */
export const blockKinds = {
  header: 1,
  versions: 2,
  closed: 3,
  gone: 7,
  records: 4,
  past: 6,
  end: 5,
} as const;

/** The header fields that a program needs to identify a file. */
export type BackupHeading = {
  readonly collection: { readonly name: string };
  readonly version: number;
  readonly hash: string;
  /** The base version of an incremental backup; null in a full one. */
  readonly since: { readonly version: number; readonly hash: string } | null;
  /** Live vectors of the version. */
  readonly live: number;
  readonly created_ms: number;
};
