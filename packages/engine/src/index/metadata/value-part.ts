// How are the values of an index read, together with their records?

/** Pairs of value and ordinal, with values that no other part of an index has. Can be read again and again. */
export type ValuePart<T> = Iterable<readonly [value: T, ordinal: number]> & {
  /** Bounds of the values: all are the same if these are. */
  readonly least: T;
  readonly greatest: T;
};
