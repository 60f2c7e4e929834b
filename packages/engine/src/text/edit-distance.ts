// How many typing errors are between two words?
//
// An error inserts, deletes or replaces a letter, or swaps two adjacent letters: the optimal string alignment distance (Damerau 1964, and
// Wagner and Fischer 1974 for the table), in code points. Unlike the full Damerau-Levenshtein distance it changes no letter twice: "ca" and
// "abc" are 3 apart.
//
// One word is compared with many, and only small distances matter. So of the table only the cells are filled that lie
// within the wanted distance of its diagonal, and a row that has no cell within it ends the comparison.

/** The distances of one word to others. */
export class EditDistance {
  readonly #word: Uint32Array;
  #other = new Uint32Array(32);
  // The row of the table that is filled, and the two before it: cell j is the distance of the word's first j letters.
  #row: Uint32Array;
  #above: Uint32Array;
  #aboveThat: Uint32Array;

  constructor(word: string) {
    this.#word = Uint32Array.from(word, (letter) => letter.codePointAt(0) as number);
    const cells = this.#word.length + 1;
    this.#row = new Uint32Array(cells);
    this.#above = new Uint32Array(cells);
    this.#aboveThat = new Uint32Array(cells);
  }

  /** The distance to another word if it is at most `max`; otherwise max + 1. */
  to(other: string, max: number): number {
    const units = new Uint16Array(other.length);
    for (let i = 0; i < other.length; i++) units[i] = other.charCodeAt(i);
    return this.toUnits(units, 0, units.length, max);
  }

  /** `to` a word whose UTF-16 code units are from `begin` to `end`, exclusive. */
  toUnits(units: Uint16Array, begin: number, end: number, max: number): number {
    const beyond = max + 1;
    // A letter takes one or two code units.
    if (end - begin < this.#word.length - max || end - begin > 2 * (this.#word.length + max)) return beyond;
    const length = this.#read(units, begin, end);
    if (Math.abs(length - this.#word.length) > max) return beyond;
    for (let j = 0; j <= this.#word.length; j++) this.#row[j] = j;
    for (let i = 1; i <= length; i++) if (this.#fillRow(i, max) > max) return beyond;
    return Math.min(this.#row[this.#word.length], beyond);
  }

  /** Fills the row of the other word's first `i` letters, within `max` of the diagonal; returns its smallest cell. */
  #fillRow(i: number, max: number): number {
    const [row, above, aboveThat] = [this.#aboveThat, this.#row, this.#above];
    [this.#row, this.#above, this.#aboveThat] = [row, above, aboveThat];
    const word = this.#word;
    const other = this.#other;
    const from = Math.max(1, i - max);
    const to = Math.min(word.length, i + max);
    // Cells next to the filled ones count as too far.
    row[from - 1] = from === 1 ? i : max + 1;
    let least = row[from - 1];
    for (let j = from; j <= to; j++) {
      const isSame = other[i - 1] === word[j - 1];
      const fromAbove = j === i + max ? max : above[j];
      let cell = Math.min(above[j - 1] + (isSame ? 0 : 1), fromAbove + 1, row[j - 1] + 1);
      const isSwapped = i > 1 && j > 1 && other[i - 1] === word[j - 2] && other[i - 2] === word[j - 1];
      if (isSwapped) cell = Math.min(cell, aboveThat[j - 2] + 1);
      row[j] = cell;
      least = Math.min(least, cell);
    }
    return least;
  }

  /** Writes the code points of a word into #other, and returns how many there are. */
  #read(units: Uint16Array, begin: number, end: number): number {
    if (this.#other.length < end - begin) this.#other = new Uint32Array(2 * (end - begin));
    let length = 0;
    for (let i = begin; i < end; i++) {
      const unit = units[i];
      const isHigh = (unit & 0xfc00) === 0xd800 && i + 1 < end && (units[i + 1] & 0xfc00) === 0xdc00;
      this.#other[length++] = isHigh ? 0x10000 + ((unit & 0x3ff) << 10) + (units[++i] & 0x3ff) : unit;
    }
    return length;
  }
}
