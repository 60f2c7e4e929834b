// How far does a search follow links?

/** A beam with a cutoff. */
export type CutBeam = {
  /** Its entries at most, and those that are not cut. */
  readonly most: number;
  readonly least: number;
  /** How much farther the others may be than the tenth, by the squared distance. */
  readonly spread: number;
};

/** How far a search follows links: with a beam of this length, or with one that is cut. */
export type Beam = number | CutBeam;

/** The length of a beam at most. */
export const lengthOf = (beam: Beam): number => (typeof beam === "number" ? beam : beam.most);
