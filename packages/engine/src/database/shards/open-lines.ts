// How does another node read lines of a shard?
//
// A part after the other, as fast as its reader reads. Lines that nobody asks for are closed after a while: they hold a state of the store.

import { randomUUID } from "node:crypto";
import { QuiverError } from "@quiverdb/protocol/errors";
import { inBackground } from "../../base/host.ts";
import type { StoredBytes } from "../../collection/reading.ts";
import type { LineExport } from "../contract.ts";

/** A line, and what tells its place among those of other shards: the version that wrote a record, or the id of what differs. */
export type PostedLine = {
  readonly place: number | string;
  readonly text: string;
  /** In place of the text, where records are asked for as they are stored. */
  readonly stored?: StoredBytes;
};

type Line = { toJson(): string; readonly born?: number; readonly id?: string; readonly stored?: StoredBytes };
type Open = { readonly lines: Iterator<Line>; readonly isStored: boolean; usedMs: number; close(): void };

const open = new Map<string, Open>();
const unusedMs = 60_000;
/** Characters of a part, about. */
const partLength = 512 * 1024;

/** @param isStored whether records are given as they are stored */
export function openLines(
  exported: LineExport,
  isStored: boolean,
): { id: string; version: number; count: number } {
  const id = randomUUID();
  const lines = exported[Symbol.iterator]() as Iterator<Line>;
  open.set(id, { lines, isStored, usedMs: performance.now(), close: () => exported.release() });
  closeUnused(id);
  return { id, version: exported.version, count: exported.count };
}

function closeUnused(id: string): void {
  inBackground(
    setTimeout(() => {
      const held = open.get(id);
      if (held === undefined) return;
      if (performance.now() - held.usedMs >= unusedMs) closeLines(id);
      else closeUnused(id);
    }, unusedMs),
  );
}

export function nextLines(id: string): { lines: PostedLine[]; isDone: boolean } {
  const held = open.get(id);
  if (held === undefined)
    throw new QuiverError("not_ready", "The lines are no longer open. Begin to read them again.", {
      retry_after_seconds: 1,
    });
  held.usedMs = performance.now();
  const lines: PostedLine[] = [];
  for (let length = 0; length < partLength; ) {
    const next = held.lines.next();
    if (next.done) {
      closeLines(id);
      return { lines, isDone: true };
    }
    const { value } = next;
    const place = value.born ?? value.id ?? "";
    if (held.isStored && value.stored !== undefined) {
      const { stored } = value;
      lines.push({ place, text: "", stored });
      length += stored.record.length + (stored.dense?.byteLength ?? 0);
      continue;
    }
    const text = value.toJson();
    lines.push({ place, text });
    length += text.length;
  }
  return { lines, isDone: false };
}

export function closeLines(id: string): void {
  const held = open.get(id);
  open.delete(id);
  held?.close();
}
