// How deeply is a value nested?

/** Levels of objects and arrays, counted no further than one above `max`. */
export function depthOf(value: unknown, max: number): number {
  if (typeof value !== "object" || value === null) return 0;
  if (max === 0) return 1;
  let deepest = 0;
  for (const inner of Object.values(value)) deepest = Math.max(deepest, depthOf(inner, max - 1));
  return deepest + 1;
}
