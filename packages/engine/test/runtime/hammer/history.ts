// What does a version of a hammered collection see? The truth that answers are compared with, without index and without visibility.
//
// The owner writes; readers look up versions that were published before. A record that is closed later than the version is seen.

/** Can be posted. */
export type SharedHistory = {
  readonly seed: number;
  /** By version: where its ordinals end. */
  readonly ends: Int32Array<SharedArrayBuffer>;
  /** By ordinal: the version that closed it; 0: none. */
  readonly closed: Int32Array<SharedArrayBuffer>;
};

const versionsMax = 2 ** 18;
const ordinalsMax = 2 ** 22;

export const newHistory = (seed: number): SharedHistory => ({
  seed,
  ends: new Int32Array(new SharedArrayBuffer(4 * versionsMax)),
  closed: new Int32Array(new SharedArrayBuffer(4 * ordinalsMax)),
});

/** Whether there is room for so many more ordinals, and a version. */
export const hasRoom = (version: number, end: number): boolean => version < versionsMax && end < ordinalsMax;

/** @param first no smaller ordinal is seen */
export function ordinalsAt({ ends, closed }: SharedHistory, version: number, first: number): number[] {
  const end = Atomics.load(ends, version);
  const seen: number[] = [];
  for (let ordinal = first; ordinal < end; ordinal++) {
    const by = Atomics.load(closed, ordinal);
    if (by === 0 || by > version) seen.push(ordinal);
  }
  return seen;
}
