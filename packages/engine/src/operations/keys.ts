// Which operations are there on keys, sessions and the audit log? Only a server has them.

import { limits } from "@quiverdb/protocol/limits";
import * as audit from "@quiverdb/protocol/shapes/audit";
import * as key from "@quiverdb/protocol/shapes/key";
import * as session from "@quiverdb/protocol/shapes/session";
import { operation } from "./operation.ts";
import { integer } from "./parameters.ts";

export const keys = {
  createSession: operation(
    {
      method: "POST",
      path: "/auth/create-session",
      role: "anyone",
      keyFilter: "harmless",
      tag: "Authentication",
      summary: "Create session",
      body: session.CreateSession,
      answer: session.Session,
      errors: [400, 500],
      isOfServer: true,
    },
    ({ server, body }) => server.logIn(body.username, body.password),
    { username: "admin", password: "<the admin key>" },
  ),
  createKey: operation(
    {
      // After a lost response nobody has the key; it is listed, unused, and can be revoked.
      method: "POST",
      path: "/auth/keys",
      repeat: "refused",
      role: "admin",
      audited: ["name", "role", "collections", "filter", "expires_at"],
      auditedAnswer: { key_id: "key_id" },
      tag: "Authentication",
      summary: "Create API key",
      body: key.CreateKey,
      status: 201,
      answer: key.KeyCreated,
      errors: [400, 500],
      isOfServer: true,
    },
    ({ server, body }) => server.keys.create(body),
    { name: "search page", role: "read", collections: ["articles"], expires_at: 4_102_444_800 },
    { name: "one customer", role: "write", collections: ["articles"], filter: { tenant: "acme" } },
  ),
  listKeys: operation(
    {
      method: "GET",
      path: "/auth/keys",
      role: "admin",
      tag: "Authentication",
      summary: "List API keys",
      answer: key.KeyList,
      errors: [500],
      isOfServer: true,
    },
    ({ server }) => ({ keys: server.keys.list() }),
  ),
  revokeKey: operation(
    {
      method: "DELETE",
      path: "/auth/keys/{key_id}",
      done: "key_not_found",
      role: "admin",
      audited: [],
      tag: "Authentication",
      summary: "Revoke API key",
      status: 204,
      errors: [404, 500],
      isOfServer: true,
    },
    ({ server, params }) => server.keys.revoke(params.key_id),
  ),
  readAudit: operation(
    {
      method: "GET",
      path: "/auth/audit",
      role: "admin",
      tag: "Authentication",
      summary: "Read the audit log, newest entries first",
      query: {
        limit: integer(
          1,
          limits.auditPageMax,
          "Maximum number of entries to return, 1 to 1,000. Default 100.",
        ),
      },
      answer: audit.AuditList,
      errors: [400, 500],
      isOfServer: true,
    },
    ({ server, query }) => server.readAudit(query.limit ?? limits.auditPageDefault),
  ),
};
