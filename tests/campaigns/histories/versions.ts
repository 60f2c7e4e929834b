// Are the versions in responses consistent with each other and with time?

import type { Operation } from "./checker.ts";
import type { Told } from "./clients.ts";

/**
 * The inconsistency of the versions; undefined if there is none.
 *
 * - One version is one state.
 * - A later response never has an older version.
 * - An acknowledged write makes a new version: responses after it have a later version than those before it.
 * - A transaction's records are in no version before the one that its status names.
 */
export function versionFault(
  told: readonly Told[],
  operations: readonly Operation[],
  versionOfStamp: ReadonlyMap<number, number>,
): string | undefined {
  const stateOf = new Map<number, string>();
  for (const { version, state } of told) {
    if (state === undefined) continue;
    const known = stateOf.get(version) ?? state;
    if (known !== state) return `version ${version} was exported as [${known}] and as [${state}]`;
    stateOf.set(version, state);
    const early = state.split(",").find((stamp) => (versionOfStamp.get(Number(stamp)) ?? 0) > version);
    if (early !== undefined)
      return `version ${version} has what ${early} wrote, which committed as version ${versionOfStamp.get(Number(early))}`;
  }
  const before = newestBefore(told);
  for (const { begins, version } of told) {
    const newest = before(begins);
    if (newest > version) return `a response has version ${version}, but an earlier one has ${newest}`;
  }
  const after = oldestAfter(told);
  for (const operation of operations) {
    if (operation.kind !== "write" || !operation.isKnown) continue;
    const newest = before(operation.begins);
    const oldest = after(operation.ends);
    if (newest >= oldest)
      return `${operation.what} made no version: ${newest} before it, ${oldest} behind it`;
  }
  return undefined;
}

/** Newest version in responses before a moment; -1 for none. */
function newestBefore(told: readonly Told[]): (moment: number) => number {
  const byEnd = [...told].sort((a, b) => a.ends - b.ends);
  const newest: number[] = [];
  for (const { version } of byEnd) newest.push(Math.max(version, newest.at(-1) ?? -1));
  return (moment) => newest[firstIndex(byEnd.length, (i) => byEnd[i].ends >= moment) - 1] ?? -1;
}

/** Oldest version in responses to requests after a moment; infinite for none. */
function oldestAfter(told: readonly Told[]): (moment: number) => number {
  const byBegin = [...told].sort((a, b) => a.begins - b.begins);
  const oldest = new Array<number>(byBegin.length + 1).fill(Number.POSITIVE_INFINITY);
  for (let i = byBegin.length - 1; i >= 0; i--) oldest[i] = Math.min(oldest[i + 1], byBegin[i].version);
  return (moment) => oldest[firstIndex(byBegin.length, (i) => byBegin[i].begins > moment)];
}

/** The first index for which `holds` is true, as it is for all later ones; `count` if there is none. */
function firstIndex(count: number, holds: (i: number) => boolean): number {
  let low = 0;
  for (let high = count; low < high; ) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
