// Which requests may pass?
//
// `Authorization: Bearer <secret>`, where the secret is the admin key or the token of a living session. The check runs
// before anything of the body is read.

import { QuiverError } from "@quiver/protocol/errors";
import type { Session } from "@quiver/protocol/shapes/session";
import type { AdminKey } from "./admin-key.ts";
import { randomSecret } from "./secrets.ts";
import type { Sessions } from "./sessions.ts";

export interface Gate {
  /** @throws unauthorized */
  check(authorization: string | undefined): void;
  /** @throws invalid_credentials */
  logIn(username: string, password: string): Promise<Session>;
  /** What must be written before the database closes. */
  close(): Promise<void>;
}

export function keyedGate(adminKey: AdminKey, sessions: Sessions): Gate {
  return {
    check(authorization) {
      const secret = bearerSecret(authorization);
      if (secret === undefined) {
        throw new QuiverError(
          "unauthorized",
          authorization === undefined
            ? "The request has no Authorization header. Send `Authorization: Bearer <key>` with the admin key or a session's token."
            : "The Authorization header does not have the form `Bearer <key>`. Send the admin key or a session's token in it.",
        );
      }
      if (adminKey.isKey(secret) || sessions.use(secret)) return;
      throw new QuiverError(
        "unauthorized",
        "The key is not valid, or its session has ended. Send the admin key, or create a session with it.",
      );
    },
    async logIn(username, password) {
      // The key is compared even for a wrong name, so that the time does not tell names apart.
      const isKey = adminKey.isKey(password);
      if (username === "admin" && isKey) return sessions.create();
      throw new QuiverError(
        "invalid_credentials",
        'The user name or the password is wrong. Send "admin" and the admin key.',
      );
    },
    close: () => sessions.close(),
  };
}

/** Everybody passes. Clients that log in first get a token that nobody asks for. */
export function openGate(clock: () => number, sessionIdleMs: number): Gate {
  return {
    check() {},
    async logIn() {
      const now = clock();
      return {
        access_token: `qs_${randomSecret()}`,
        created_at: Math.floor(now / 1000),
        expires_at: Math.floor((now + sessionIdleMs) / 1000),
      };
    },
    async close() {},
  };
}

function bearerSecret(authorization: string | undefined): string | undefined {
  return /^Bearer +([\x21-\x7e]+) *$/i.exec(authorization ?? "")?.[1];
}
