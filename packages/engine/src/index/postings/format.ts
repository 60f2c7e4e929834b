// Which checkpoints of inverted indexes can be read?

/** Increased when the bytes of a segment or a dictionary change: checkpoints of before are not used. */
export const postingFormat = 4;
