// Which known name did somebody mean who wrote an unknown one?

import { distance } from "fastest-levenshtein";

/** Longer names are compared with nothing: nobody mistypes a name of six words, and the comparison is quadratic. */
const lengthMax = 64;

/** `topK`, `top-k` and `Top_K` are one word to whoever types them. */
const plain = (name: string) => name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, "");

/**
 * The known name that is nearest: the same but for case, dashes and underscores, or with one letter in three wrong at
 * most.
 * @returns undefined where none is near
 */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  if (name.length > lengthMax) return undefined;
  const wanted = plain(name);
  let nearest: string | undefined;
  let leastEdits = Number.POSITIVE_INFINITY;
  for (const candidate of known) {
    const other = plain(candidate);
    const edits = distance(wanted, other);
    if (edits > Math.floor(Math.max(wanted.length, other.length) / 3) || edits >= leastEdits) continue;
    nearest = candidate;
    leastEdits = edits;
  }
  return nearest;
}
