// Has a request a body only where its route has one?
//
// The validator checks the contents of a body against its shape. A route without a body accepts no fields, because they would be dropped
// silently. Keys of published clients that the server ignores are removed first (client-keys.ts).

import { clientKeysOf } from "@quiverdb/engine/operations/client-keys";
import type { Operation, OperationName } from "@quiverdb/engine/operations/operations";
import { fieldError } from "@quiverdb/protocol/errors";
import { refuseUnknownFields } from "@quiverdb/protocol/fields";
import { Fields } from "@quiverdb/protocol/shapes/common";
import { describe } from "./validation.ts";

const NoFields = Fields({});

/**
 * Call this before a body is validated. Removes the keys to ignore.
 * @param body the parsed body; undefined if there is none
 * @returns the body; an empty object where there is none, which the validator gives a fault if a field is required
 * @throws invalid_request for a body where the route has none; unknown_field if it has fields
 */
export function checkBody(route: Operation, name: OperationName, body: unknown): unknown {
  if (route.upload) return body;
  if (route.body !== undefined && body === undefined) return {};
  const fields = asObject(body);
  if (fields !== undefined) for (const key of clientKeysOf(name)) delete fields[key];
  if (route.body !== undefined || body === undefined || body === null) return body;
  if (fields !== undefined) {
    refuseUnknownFields(NoFields, fields);
    return body;
  }
  const received = describe(body);
  throw fieldError(
    "body",
    "no body",
    received,
    `The endpoint accepts no body or an empty object, not ${received}.`,
  );
}

function asObject(body: unknown): Record<string, unknown> | undefined {
  const isObject = typeof body === "object" && body !== null && !Array.isArray(body);
  return isObject ? (body as Record<string, unknown>) : undefined;
}
