// Which requests pass authentication?
//
// With a key: `Authorization: Bearer <secret>`, where the secret is an API key, the token of a live session or the admin key. Only guesses
// at the admin key need a limit, see failed-attempts.
//
// Without a key, the loopback address keeps other machines out, but not the pages in a browser on this machine. A page can use a domain
// name that resolves to 127.0.0.1 (DNS rebinding), or send requests that need no CORS preflight. So requests must address the server by a
// loopback name, and may come only from pages of the configured origins.
//
// The check runs before the body is read. What the caller may do is decided in access.ts.

import { QuiverError } from "@quiverdb/protocol/errors";
import type { Session } from "@quiverdb/protocol/shapes/session";
import { isLoopback } from "../config.ts";
import { Access } from "./access.ts";
import type { AdminKey } from "./admin-key.ts";
import type { ApiKeys } from "./api-keys.ts";
import type { FailedAttempts } from "./failed-attempts.ts";
import { randomSecret } from "./secrets.ts";
import type { Sessions } from "./sessions.ts";

/** The headers that a gate reads. */
export type Credentials = {
  readonly authorization?: string | undefined;
  readonly host?: string | undefined;
  readonly origin?: string | undefined;
};

export interface Gate {
  /**
   * The caller's access.
   * @param address of the other end of the connection
   * @throws unauthorized, rate_limited
   */
  enter(headers: Credentials, address: string): Access | Promise<Access>;
  /** @throws invalid_credentials, rate_limited */
  logIn(username: string, password: string, address: string): Promise<Session>;
  /** Absent on a server without authentication, which has no keys. */
  readonly keys: ApiKeys | undefined;
  /** Completes the writes that must be done before the database closes. */
  close(): Promise<void>;
}

export function keyedGate(
  adminKey: AdminKey,
  sessions: Sessions,
  keys: ApiKeys,
  attempts: FailedAttempts,
): Gate {
  const admin = new Access("admin-key", "admin");
  return {
    keys,
    enter({ authorization }, address) {
      const secret = bearerSecret(authorization);
      if (secret === undefined) {
        throw new QuiverError(
          "unauthorized",
          authorization === undefined
            ? "The request has no Authorization header. Send `Authorization: Bearer <key>` with the admin key, an API key or a session's token."
            : "The Authorization header does not have the form `Bearer <key>`. Send the admin key, an API key or a session's token in it.",
        );
      }
      const access = keys.use(secret) ?? sessions.use(secret);
      if (access !== undefined) return access;
      if (isAdminKey(secret, address)) return admin;
      throw new QuiverError(
        "unauthorized",
        "The key is not valid, or it was revoked, or its session has ended. Send the admin key or an API key, or " +
          "create a session with the admin key.",
      );
    },
    async logIn(username, password, address) {
      // The key is compared even for a wrong name, so that the time does not tell names apart.
      const isKey = isAdminKey(password, address);
      if (username === "admin" && isKey) return sessions.create();
      throw new QuiverError(
        "invalid_credentials",
        'The user name or the password is wrong. Send "admin" and the admin key.',
      );
    },
    async close() {
      await Promise.all([sessions.close(), keys.close()]);
    },
  };

  /** @throws rate_limited before a guessable key is compared */
  function isAdminKey(candidate: string, address: string): boolean {
    if (adminKey.isRandom && adminKey.isKey(candidate)) return true;
    attempts.refuseGuesser(address);
    if (!adminKey.isRandom && adminKey.isKey(candidate)) return true;
    attempts.failed(address);
    return false;
  }
}

/**
 * Every request from this machine passes. Clients that log in get a token, which is not checked.
 * @param origins of pages that may call; `*` for all
 */
export function openGate(clock: () => number, sessionIdleMs: number, origins: readonly string[]): Gate {
  const everyone = new Access("no-auth", "admin");
  return {
    keys: undefined,
    enter({ host, origin }) {
      if (host !== undefined && !isLoopback(host.replace(/:\d*$/, ""))) {
        throw new QuiverError(
          "unauthorized",
          "The server runs without authentication and answers only requests to a loopback address, such as " +
            "127.0.0.1 or localhost. Use such an address, or start the server with an admin key.",
        );
      }
      const own = origin === `http://${host}` || origin === `https://${host}`;
      if (origin === undefined || own || origins.includes("*") || origins.includes(origin)) {
        return everyone;
      }
      throw new QuiverError(
        "unauthorized",
        "The server runs without authentication and rejects requests from pages of this origin. Allow the origin with --cors-origin, or start " +
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

/**
 * Rejects a request with two different Authorization headers: Node.js uses the first, but a proxy in front may use the last, so the caller
 * is ambiguous.
 * @param rawHeaders names and values in turn
 * @throws invalid_request
 */
export function refuseTwoKeys(rawHeaders: readonly string[]): void {
  let first: string | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i].length !== 13 || rawHeaders[i].toLowerCase() !== "authorization") continue;
    first ??= rawHeaders[i + 1];
    if (rawHeaders[i + 1] === first) continue;
    throw new QuiverError(
      "invalid_request",
      "The request has two different Authorization headers. Send one.",
      { path: "authorization", expected: "one header", received: "two different ones" },
    );
  }
}

function bearerSecret(authorization: string | undefined): string | undefined {
  return /^Bearer +([\x21-\x7e]+) *$/i.exec(authorization ?? "")?.[1];
}
