// Which list of postings belongs to a term?
//
// JavaScript Maps, for they hash strings faster than anything written in JavaScript. One Map holds at most 2^24
// entries, so a full one is followed by another; a look-up asks them in turn, and nearly always there is one.

import { invariant } from "../../base/invariant.ts";

const mapEntriesMax = 2 ** 23;
/** Bytes of a Map's entry and of a string's header, as measured in V8. */
const entryBytes = 56;

export class Dictionary {
  readonly #maps: Map<string, number>[] = [new Map()];
  /** List -> term, to forget it by; "" of a free list. */
  #terms: string[] = [];
  #characters = 0;

  get size(): number {
    return this.#maps.reduce((sum, map) => sum + map.size, 0);
  }

  /** The list of a term, or undefined. */
  get(term: string): number | undefined {
    for (const map of this.#maps) {
      const list = map.get(term);
      if (list !== undefined) return list;
    }
    return undefined;
  }

  /** Adds a term that is not there. The string is kept: it must not be a slice of a long one. */
  add(term: string, list: number): void {
    const roomy = this.#maps.find((map) => map.size < mapEntriesMax);
    const map = roomy ?? new Map<string, number>();
    if (roomy === undefined) this.#maps.push(map);
    map.set(term, list);
    this.#terms[list] = term;
    this.#characters += term.length;
  }

  /** Forgets the term of a list. */
  remove(list: number): void {
    const term = this.#terms[list];
    for (const map of this.#maps) map.delete(term);
    this.#terms[list] = "";
    this.#characters -= term.length;
  }

  *entries(): Generator<[term: string, list: number]> {
    for (const map of this.#maps) yield* map;
  }

  /** The terms that pass a test, in no particular order. */
  termsThat(passes: (term: string) => boolean): string[] {
    const found: string[] = [];
    for (const map of this.#maps) for (const term of map.keys()) if (passes(term)) found.push(term);
    return found;
  }

  close(): void {
    this.#maps.length = 1;
    this.#maps[0] = new Map();
    this.#terms = [];
    this.#characters = 0;
  }

  get memoryBytes(): number {
    return entryBytes * this.size + 8 * this.#terms.length + 2 * this.#characters;
  }

  check(): void {
    let terms = 0;
    let characters = 0;
    for (const [term, list] of this.entries()) {
      invariant(this.#terms[list] === term, `list ${list} of "${term}" claims "${this.#terms[list]}"`);
      terms++;
      characters += term.length;
    }
    const used = this.#terms.filter((term) => term !== "").length;
    invariant(used === terms, `${terms} terms for ${used} lists`);
    invariant(
      characters === this.#characters,
      `terms have ${characters} characters, not ${this.#characters}`,
    );
  }
}
