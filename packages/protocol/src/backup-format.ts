// What blocks does a backup file consist of?
//
//   prefix   "QUIVERBK" | u32 format | u32 CRC-32 of the 12 bytes before
//   block    u8 kind | u8 compression (0 none, 1 zstd) | u16 0 | u32 bytes in the file | u32 bytes unpacked | u32 rows
//            | u32 CRC-32 of the 16 bytes before and of the block's bytes in the file | bytes
//
// Numbers are little-endian. The first block is the header, as uncompressed JSON, so that a program can identify a file without reading all
// of it; the last block is the end, with the SHA-256 of all bytes before it. docs/backup.md describes the contents.

/** Incremented when the format or the meaning of any part changes. Files of a newer format are rejected. */
export const backupFormatNumber = 1;

export const backupMagic = "QUIVERBK";

export const backupPrefixBytes = 16;
export const blockHeadBytes = 20;

/** Kinds of blocks, in the order in which they appear in a file. */
export const blockKinds = { header: 1, versions: 2, closed: 3, records: 4, end: 5 } as const;

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
