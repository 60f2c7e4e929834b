// Is a run what run-layout.ts says?
//
// Every column, bound, window, rank and peak is worked out again from the exact postings.

import {
  entry,
  kinds,
  longList,
  rankBits,
  ranksMax,
  runRecordsMax,
  stretchesMax,
  stretchRecords,
  windowRecords,
  windowsMax,
} from "@quiver/kernels/postings";
import { invariant } from "../../base/invariant.ts";
import type { Run } from "./run.ts";
import { columnsOf, peaksOf, stretchCodesAt, windowCodesAt, windowsBytes } from "./run-layout.ts";

/** Proves the invariants of a run's block. @param amountOf what a posting adds, at weight 1, when the codes were made */
export function checkRun(run: Run, amountOf: (value: number, length: number) => number): void {
  invariant(run.recordCount > 0 && run.recordCount <= runRecordsMax, `a run of ${run.recordCount} records`);
  assertAscends(run.ordinals, "ordinals");
  assertAscends(run.terms, "terms");
  let removed = 0;
  for (let record = 0; record < run.recordCount; record++) if (run.isRemoved(record)) removed++;
  invariant(removed === run.removedCount, `${removed} records are marked removed, not ${run.removedCount}`);
  const lengths = new Float64Array(run.recordCount);
  let postings = 0;
  for (let list = 0; list < run.listCount; list++) {
    postings += run.countOf(list);
    checkList(run, list, lengths, amountOf);
  }
  invariant(postings === run.postings, `lists have ${postings} postings of ${run.postings}`);
  if (run.kind === kinds.sparse) return;
  // A character of a run of Chinese, Japanese or Korean is one place, and may have two terms or none.
  for (const [record, length] of run.lengths.entries())
    invariant(
      lengths[record] <= 2 * length,
      `record ${record} has ${lengths[record]} terms in ${length} places`,
    );
}

function checkList(
  run: Run,
  list: number,
  lengths: Float64Array,
  amountOf: (value: number, length: number) => number,
): void {
  const count = run.countOf(list);
  const place = run.placeOf(list);
  const boundsAt = (run.entryOf(list) + entry.base) >>> 2;
  const [base, slope, most] = run.arena.floats.subarray(boundsAt, boundsAt + 3);
  const { codes, windows } = columnsOf(run.kind, count);
  invariant(count > 0, `term ${run.terms[list]} has an empty list`);
  const ends = new Uint32Array(windowsMax);
  const greatest = new Uint8Array(windowsMax);
  const inStretch = new Uint8Array(stretchesMax);
  let last = -1;
  for (let i = 0; i < count; i++) {
    const record = run.recordAt(list, i);
    invariant(record > last && record < run.recordCount, `record ${record} follows ${last} in list ${list}`);
    last = record;
    const value = run.valueOf(list, i);
    lengths[record] += value;
    const amount = amountOf(value, run.lengths[record]);
    const code = run.arena.bytes[place + codes + i];
    invariant(code <= run.levels, `list ${list} has a code ${code} of ${run.levels}`);
    invariant(base + slope * code >= amount, `list ${list} bounds ${amount} by ${base + slope * code}`);
    invariant(amount <= most, `list ${list} has an amount of ${amount}, more than ${most}`);
    invariant(base + slope * Math.max(0, code - 1) <= amount, `list ${list} bounds ${amount} loosely`);
    const window = Math.floor(record / windowRecords);
    ends[window] = i + 1;
    greatest[window] = Math.max(greatest[window], code);
    const stretch = Math.floor(record / stretchRecords);
    inStretch[stretch] = Math.max(inStretch[stretch], code);
  }
  if (count < longList) return;
  let begin = 0;
  for (let window = 0; window < windowsMax; window++) {
    const at = place + windows;
    invariant(run.arena.words[(at >>> 2) + window] === begin, `list ${list}: window ${window} begins wrong`);
    invariant(
      run.arena.bytes[at + windowCodesAt + window] === greatest[window],
      `list ${list}: a window's code`,
    );
    begin = Math.max(begin, ends[window]);
  }
  const stretches = run.arena.bytes.subarray(place + windows + stretchCodesAt).subarray(0, stretchesMax);
  invariant(Buffer.compare(stretches, inStretch) === 0, `list ${list}: the codes of its stretches`);
  invariant(run.arena.words[((place + windows) >>> 2) + windowsMax] === count, `list ${list}: its end`);
  const descending = run.arena.bytes
    .slice(place + codes, place + codes + count)
    .sort()
    .reverse();
  for (let i = 0; i < ranksMax; i++) {
    const code = run.arena.bytes[run.entryOf(list) + entry.ranks + i];
    invariant(
      code === (descending[2 ** (rankBits + i) - 1] ?? 0),
      `list ${list}: rank ${i} has code ${code}`,
    );
  }
  if (run.kind === kinds.sparse) checkPeaks(run, list, place + codes, place + windows + windowsBytes);
}

/** @param at of the peaks */
function checkPeaks(run: Run, list: number, codesAt: number, at: number): void {
  const { bytes, halves } = run.arena;
  const count = run.countOf(list);
  const postings = Array.from({ length: count }, (_, i) => ({
    record: run.recordAt(list, i),
    code: bytes[codesAt + i],
  }));
  const peaks = postings.sort((a, b) => b.code - a.code || a.record - b.record).slice(0, peaksOf(count));
  for (const [i, { record, code }] of peaks.entries())
    invariant(
      halves[(at >>> 1) + i] === record && bytes[at + 2 * peaks.length + i] === code,
      `list ${list}: peak ${i} is not record ${record} with code ${code}`,
    );
}

function assertAscends(values: Uint32Array, what: string): void {
  for (let i = 1; i < values.length; i++)
    invariant(values[i] > values[i - 1], `${what} of a run: ${values[i]} follows ${values[i - 1]}`);
}
