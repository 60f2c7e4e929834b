// What is required of a dense index, whatever its data?

/** Number of results per query. */
export const topK = 10;

/** Minimum mean fraction of right results. */
export const recallMin = 0.985;

/** Minimum fraction of stored vectors whose first result is the vector itself, or one with the same score. */
export const itselfFirstMin = 0.999;

/** Maximum number of queries without any right result. */
export const emptyQueriesMax = 0;

/** How many fewer results than hnswlib, over all queries, count as chance. */
export const hitsOfChance = 1;

/** A result is right if its score is below the k-th best by at most this fraction of it, because returned scores are rounded. */
export const tolerance = 1e-6;

/** Types of codes with requirements: with fewer bits, users accept losses explicitly. */
export const judgedTypes: ReadonlySet<string> = new Set(["auto", "f32"]);

/** Settings, by their names in the interface. */
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
