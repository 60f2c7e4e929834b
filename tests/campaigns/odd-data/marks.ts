// What has to hold of a dense index, whatever data it has?

/** Results that are asked for, and counted. */
export const topK = 10;

/** Least mean share of right results. */
export const recallMin = 0.985;

/** Least share of stored vectors whose search has a result first that is as good as themselves. */
export const itselfFirstMin = 0.999;

/** Queries that may have no right result at all. */
export const emptyQueriesMax = 0;

/** How many results fewer than hnswlib, of all queries together, are chance. */
export const hitsOfChance = 1;

/** A result is right when its score is not less than the k-th best by more than this share of it: scores are told as rounded numbers. */
export const tolerance = 1e-6;

/** Types of codes that have to reach the marks: with fewer bits, users say what they give up. */
export const judgedTypes: ReadonlySet<string> = new Set(["auto", "f32"]);

/** Names of settings, as the interface names them. */
export type Settings = {
  readonly name: string;
  readonly m: number;
  readonly efConstruction: number;
  readonly efSearch: number;
};

/** The settings under which Quiver and hnswlib are compared, and Quiver's own defaults. */
export const settings = {
  compared: { name: "compared", m: 16, efConstruction: 200, efSearch: 128 },
  defaults: { name: "defaults", m: 16, efConstruction: 128, efSearch: 128 },
} as const satisfies Record<string, Settings>;
