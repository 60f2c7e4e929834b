// What is said to somebody whose filter asks for a field that nobody has?

import { nearestName } from "./nearest-name.ts";
import type { FilterExplanation } from "./shapes/search.ts";

/** Fields that are named. */
const namedMax = 10;

/** One or two sentences in plain text; undefined if no field of the filter is absent. */
export function absentFieldsHint({
  absent_fields = [],
  known_fields = [],
}: Pick<FilterExplanation, "absent_fields" | "known_fields">): string | undefined {
  if (absent_fields.length === 0) return undefined;
  const asked = absent_fields.map((field) => {
    const nearest = nearestName(field, known_fields);
    return nearest === undefined
      ? JSON.stringify(field)
      : `${JSON.stringify(field)} (did you mean ${nearest}?)`;
  });
  const found = `No record was found with a field ${listed(asked, "or")}.`;
  if (known_fields.length === 0) return found;
  return `${found} Records have: ${listed(known_fields)}.`;
}

function listed(names: readonly string[], last?: string): string {
  const named = names.slice(0, namedMax);
  const more = names.length - named.length;
  if (more > 0) return `${named.join(", ")} and ${more} more`;
  if (last === undefined || named.length === 1) return named.join(", ");
  return `${named.slice(0, -1).join(", ")} ${last} ${named.at(-1)}`;
}
