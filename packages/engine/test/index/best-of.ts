// Which are the best of scored records, by sorting them all?

/** The k best of all scored records, and all ties with the k-th: what `search` must return. */
export function bestOf(scored: ReadonlyMap<number, number>, k: number): Map<number, number> {
  const floor = [...scored.values()].sort((a, b) => b - a)[Math.min(k, scored.size) - 1];
  return new Map([...scored].filter(([, score]) => k > 0 && score >= floor));
}
