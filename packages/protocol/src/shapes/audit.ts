// Who changed which key, collection, index or snapshot, and when?

import Type, { type Static } from "typebox";
import { mapOf, OneOf } from "./common.ts";

/**
 * `begun` is on disk before anything is changed, `done` or `failed` before the response is sent; if the disk fails in between, before the
 * next change begins.
 */
export const auditPhases = ["begun", "done", "failed"] as const;

/** One line of the log. Each change has two: one before it is carried out, and one with its outcome. */
export const AuditEntry = Type.Object({
  at: Type.String({ description: "ISO 8601, UTC." }),
  operation: Type.String({
    description: "The endpoint by its operation id: `deleteCollection`, `createKey`.",
  }),
  phase: OneOf(auditPhases, {
    description:
      "`begun` is on disk before anything is changed, `done` or `failed` before the response is sent (if the disk " +
      "fails in between: before the next change begins).",
  }),
  who: Type.String({
    description: "`admin-key`, `session:<id>`, `key:<key_id>`; `no-auth` on a server without authentication.",
  }),
  what: mapOf(Type.String(), {
    description:
      "What is changed and how: the names in the path, the fields of the body that define what may be done or what is " +
      "created (`role`, `collections`, `overwrite`, `config.max_vectors`; lists as JSON; absent fields are left " +
      "out). The entry with the outcome also has the ids that the server assigned (`key_id`, `snapshot_id`).",
  }),
  error: Type.Optional(Type.String({ description: "Error code, if it failed." })),
  request_id: Type.String({ description: "As in the server's log and in the response header x-request-id." }),
  address: Type.String({ description: "Where the request came from." }),
});

export const AuditList = Type.Object(
  {
    entries: Type.Array(AuditEntry, { description: "Newest first." }),
    damaged_lines: Type.Integer({ description: "Number of damaged lines, which are left out." }),
  },
  { description: "Who changed which key, collection or index." },
);

export type AuditEntry = Static<typeof AuditEntry>;
export type AuditList = Static<typeof AuditList>;
