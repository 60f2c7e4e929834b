// What does the text benchmark require of an engine?
//
// The ten best passages for a few words: OR queries scored by BM25. Passages and queries are given as text, so that their
// analysis counts; BM25's k1 and b are the same wherever they can be set, and where they cannot, they are these.

import type { EngineKind as AnyEngineKind } from "../shared/engine.ts";

export const k1 = 1.2;
export const b = 0.75;
export const k = 10;

/** How texts are to be analysed: not at all beyond lower case, or as English, with stems and stop words. */
export type Language = "none" | "english";

/** The properties of the set that an engine will index. */
export type Shape = {
  readonly language: Language;
  /** Total number of passages to add. */
  readonly count: number;
  /** An empty directory for this engine. */
  readonly directory: string;
};

export type EngineKind = AnyEngineKind<Shape, string>;
