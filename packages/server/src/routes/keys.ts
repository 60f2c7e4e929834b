// How are API keys created, listed and revoked over HTTP, and how is the audit log read?

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { ApiKeys } from "../auth/api-keys.ts";
import type { Gate } from "../auth/gate.ts";
import { json } from "../json-answer.ts";
import { integerParameter } from "../request/query.ts";
import type { Handlers } from "./handlers.ts";

export const keyHandlers: Handlers<"createKey" | "listKeys" | "revokeKey" | "readAudit"> = {
  async createKey({ gate, body, names }) {
    const created = await keysOf(gate).create(body);
    names.key_id = created.key_id;
    return json(created);
  },
  listKeys: ({ gate }) => json({ keys: keysOf(gate).list() }),
  revokeKey: ({ gate, params }) => keysOf(gate).revoke(params.key_id),
  async readAudit({ audit, query }) {
    const limit = integerParameter(query, "limit", 1, limits.auditPageMax) ?? limits.auditPageDefault;
    return json(await audit.read(limit));
  },
};

/** A key created while anyone may create one would remain valid when the server is later started with authentication. */
function keysOf(gate: Gate): ApiKeys {
  if (gate.keys !== undefined) return gate.keys;
  throw new QuiverError(
    "forbidden",
    "The server runs without authentication, so it has no API keys. Start it with an admin key to manage them.",
  );
}
