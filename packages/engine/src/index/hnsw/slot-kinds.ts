// Which states does a node slot of a graph have? They are drawn in partition.ts.

/** The states of a node slot. */
export const kinds = { free: 0, node: 1, upper: 2, dead: 3, unlinked: 4 } as const;
