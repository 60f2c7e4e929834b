// Which known name is closest to an unknown one?

import { distance } from "fastest-levenshtein";

/** Longer names get no suggestion: the comparison is quadratic, and no known name is that long. */
const lengthMax = 64;

/** `topK`, `top-k` and `Top_K` count as the same name. */
const plain = (name: string) => name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, "");

const lettersOf = (name: string) => [...name].sort().join("");

/**
 * The known name that is nearest: equal but for case, dashes and underscores, or with at most one letter in three wrong; letters in
 * another order are one.
 * @returns undefined if none is similar
 */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  if (name.length > lengthMax) return undefined;
  const wanted = plain(name);
  let nearest: string | undefined;
  let leastEdits = Number.POSITIVE_INFINITY;
  for (const candidate of known) {
    const other = plain(candidate);
    // Letters in another order (`prot`) are the commonest slip of all, and two edits for each exchange.
    const apart = distance(wanted, other);
    const edits = apart > 1 && lettersOf(wanted) === lettersOf(other) ? 1 : apart;
    if (edits > Math.floor(Math.max(wanted.length, other.length) / 3) || edits >= leastEdits) continue;
    nearest = candidate;
    leastEdits = edits;
  }
  return nearest;
}
