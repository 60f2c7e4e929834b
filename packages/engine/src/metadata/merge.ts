// What becomes of metadata when a patch is merged into it (RFC 7396)?
//
// Keys of the patch replace those of the metadata, objects are merged, and null removes a key. Numbers keep their text, also those that
// JavaScript cannot represent.

/** Functions of JSON that TypeScript's library does not declare yet. */
type ExactJson = {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): unknown;
  isRawJSON(value: unknown): boolean;
};
const { parse, rawJSON, isRawJSON } = JSON as object as ExactJson;

const parseExactly = (text: string): unknown =>
  parse(text, (_key, value, { source }) =>
    typeof value === "number" && source !== undefined && String(value) !== source ? rawJSON(source) : value,
  );

/**
 * The JSON text of the merged metadata.
 * @param metadata JSON text of an object; null: there is none
 * @param patch JSON text of an object
 */
export function mergedMetadata(metadata: string | null, patch: string): string {
  return JSON.stringify(merged(metadata === null ? {} : parseExactly(metadata), parseExactly(patch)));
}

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !isRawJSON(value);

function merged(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const members = new Map(isObject(target) ? Object.entries(target) : []);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) members.delete(key);
    else members.set(key, merged(members.get(key), value));
  }
  return Object.fromEntries(members);
}

// ---- How deeply is a value nested?

/** Levels of objects and arrays, counted no further than one above `max`. */
export function depthOf(value: unknown, max: number): number {
  if (typeof value !== "object" || value === null) return 0;
  if (max === 0) return 1;
  let deepest = 0;
  for (const inner of Object.values(value)) deepest = Math.max(deepest, depthOf(inner, max - 1));
  return deepest + 1;
}
