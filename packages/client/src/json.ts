// How is a value written as JSON without losing a number?
//
// JSON.stringify writes NaN and the infinities as null, and null means "absent" in a filter and "remove the key" in a patch: a filter would
// match more records, and a patch delete what it should set. So such a number is an error, before anything is sent.

import { QuiverError } from "@quiver/protocol/errors";

/**
 * JSON text of the body of a request, or of a part of it.
 * @param path of the part, for messages
 * @throws QuiverError invalid_request with the place of a number that is not finite, such as `filter.n.lt`
 */
export function jsonText(value: unknown, path = ""): string {
  const text = JSON.stringify(value);
  // Most bodies have no null at all, so their values need not be walked.
  if (text.includes("null")) refuseNotFinite(value, path);
  return text;
}

function refuseNotFinite(value: unknown, path: string): void {
  if (typeof value === "number" && !Number.isFinite(value))
    throw new QuiverError(
      "invalid_request",
      `${path} is ${value}, which JSON cannot represent; expected a finite number.`,
      {
        path,
      },
    );
  if (typeof value !== "object" || value === null) return;
  const { toJSON } = value as { toJSON?: () => unknown };
  if (typeof toJSON === "function") refuseNotFinite(toJSON.call(value), path);
  else if (Array.isArray(value)) {
    for (const [i, item] of value.entries()) refuseNotFinite(item, `${path}[${i}]`);
  } else
    for (const [key, item] of Object.entries(value))
      refuseNotFinite(item, path === "" ? key : `${path}.${key}`);
}
