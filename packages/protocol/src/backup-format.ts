// How is a backup file divided, whatever is in it?
//
//   prefix   "QUIVERBK" | u32 format | u32 CRC-32 of the 12 bytes before
//   block    u8 kind | u8 compression (0 none, 1 zstd) | u16 0 | u32 bytes in the file | u32 bytes unpacked | u32 rows
//            | u32 CRC-32 of the 16 bytes before and of the block's bytes in the file | bytes
//
// Numbers are little-endian. The first block is the header, as JSON that is not compressed, so that a program can read what
// a file is for without reading it; the last is the end, with the SHA-256 of all bytes before it. docs/backup.md has the rest.

/** Increased when the format, or what any part means, changes. A newer file is refused. */
export const backupFormatNumber = 1;

export const backupMagic = "QUIVERBK";

export const backupPrefixBytes = 16;
export const blockHeadBytes = 20;

/** Kinds of blocks, in the order in which they stand in a file. */
export const blockKinds = { header: 1, versions: 2, closed: 3, records: 4, end: 5 } as const;

/** What a program that only looks at a file needs of its header. */
export type BackupHeading = {
  readonly collection: { readonly name: string };
  readonly version: number;
  readonly hash: string;
  /** The version that an incremental backup goes on from; null in a full one. */
  readonly since: { readonly version: number; readonly hash: string } | null;
  /** Live vectors of the version. */
  readonly live: number;
  readonly created_ms: number;
};
