// Which requests may pass?
//
// With a key: `Authorization: Bearer <secret>`, where the secret is the admin key or the token of a living session.
//
// Without one, the loopback address keeps other machines out, but not the pages in a browser on this machine. A page
// can call by a name of its own that it has made to mean 127.0.0.1, or send what needs no leave of CORS. So requests
// must name the server by a loopback address, and come from no page but those of the named origins.
//
// The check runs before anything of the body is read.

import { QuiverError } from "@quiver/protocol/errors";
import type { Session } from "@quiver/protocol/shapes/session";
import { isLoopback } from "../config.ts";
import type { AdminKey } from "./admin-key.ts";
import { randomSecret } from "./secrets.ts";
import type { Sessions } from "./sessions.ts";

/** The headers that a gate looks at. */
export type Credentials = {
  readonly authorization?: string | undefined;
  readonly host?: string | undefined;
  readonly origin?: string | undefined;
};

export interface Gate {
  /** @throws unauthorized */
  check(headers: Credentials): void;
  /** @throws invalid_credentials */
  logIn(username: string, password: string): Promise<Session>;
  /** What must be written before the database closes. */
  close(): Promise<void>;
}

export function keyedGate(adminKey: AdminKey, sessions: Sessions): Gate {
  return {
    check({ authorization }) {
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

/**
 * Everybody on this machine passes. Clients that log in first get a token that nobody asks for.
 * @param origins whose pages may call; `*` for all
 */
export function openGate(clock: () => number, sessionIdleMs: number, origins: readonly string[]): Gate {
  return {
    check({ host, origin }) {
      if (host !== undefined && !isLoopback(host.replace(/:\d*$/, ""))) {
        throw new QuiverError(
          "unauthorized",
          "The server runs without authentication and answers only where it is called by a loopback address, such as " +
            "127.0.0.1 or localhost. Call it so, or start it with an admin key.",
        );
      }
      if (origin === undefined || origin === `http://${host}`) return;
      if (origins.includes("*") || origins.includes(origin)) return;
      throw new QuiverError(
        "unauthorized",
        "The server runs without authentication and answers no page of this origin. Name the origin for CORS, or start " +
          "the server with an admin key.",
      );
    },
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
