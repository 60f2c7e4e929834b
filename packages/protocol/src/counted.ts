// How is a number of things said?

/** `1 value`, `3 values`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
