// Is there a body where a route has one, and none where it has not?
//
// The validator says what is wrong in a body of a shape. A route without one takes no fields: what a client puts there
// would be dropped. Keys that published clients send and that mean nothing here are taken out first (client-keys.ts).

import { clientKeysOf } from "@quiver/protocol/client-keys";
import { refuseUnknownFields } from "@quiver/protocol/fields";
import type { Route, RouteName } from "@quiver/protocol/routes";
import { Fields } from "@quiver/protocol/shapes/common";
import { describe, fieldError } from "./validation.ts";

const NoFields = Fields({});

/**
 * To be called before a body is validated. Takes the keys out of it that are to be ignored.
 * @param body as it was parsed; undefined without one
 * @throws invalid_request for a missing body, or one that is no object; unknown_field where the route has no fields
 */
export function checkBody(route: Route, name: RouteName, body: unknown): void {
  if (route.upload) return;
  if (route.body !== undefined && body === undefined) {
    throw fieldError("body", "a JSON object", "nothing", "The request body is missing; send a JSON object.");
  }
  const fields = asObject(body);
  if (fields !== undefined) for (const key of clientKeysOf(name)) delete fields[key];
  if (route.body !== undefined || body === undefined || body === null) return;
  if (fields !== undefined) {
    refuseUnknownFields(NoFields, fields);
    return;
  }
  const received = describe(body);
  throw fieldError(
    "body",
    "no body",
    received,
    `The endpoint takes no body, or an empty object, not ${received}.`,
  );
}

function asObject(body: unknown): Record<string, unknown> | undefined {
  const isObject = typeof body === "object" && body !== null && !Array.isArray(body);
  return isObject ? (body as Record<string, unknown>) : undefined;
}
