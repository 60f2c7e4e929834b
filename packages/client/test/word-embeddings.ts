// How does a test embed texts without a model?
//
// Each word adds a direction of its own, so texts that share words are near to each other: the count of a word is at a place that its hash
// chooses. The same text always has the same vector.

/** Dimension of the vectors. */
export const wordDimension = 64;

/** The vector of a text, of the length 1; of a text without words, the first axis. */
export function wordVector(text: string): number[] {
  const vector = new Array<number>(wordDimension).fill(0);
  for (const word of text.toLowerCase().match(/\p{L}+/gu) ?? []) vector[hash(word) % wordDimension]++;
  const length = Math.hypot(...vector);
  if (length === 0) vector[0] = 1;
  return vector.map((value) => value / (length === 0 ? 1 : length));
}

export const embedWords = async (texts: string[]): Promise<number[][]> => texts.map(wordVector);

/** FNV-1a. */
function hash(word: string): number {
  let state = 0x811c9dc5;
  for (const character of word) state = Math.imul(state ^ (character.codePointAt(0) as number), 0x01000193);
  return state >>> 0;
}
