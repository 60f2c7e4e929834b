// Which checkpoints of inverted indexes can be read?

/** Increase this when the bytes of a segment or a dictionary change: older checkpoints are then ignored. */
export const postingFormat = 7;
