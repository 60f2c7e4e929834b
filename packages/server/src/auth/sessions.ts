// Which sessions exist, and when do they expire?
//
// A session is stored under the digest of its token; only the client has the token itself. It lives for `limits.sessionIdleMs` after its
// last use. The last use is stored at most once a minute, and at close, so that after a restart a session expires at most a minute early.

import type { Credentials } from "@quiverdb/engine/database/contract";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { Session } from "@quiverdb/protocol/shapes/session";
import { Access } from "./access.ts";
import { BackgroundWrites } from "./background-writes.ts";
import { digest, randomSecret } from "./secrets.ts";

const prefix = "session:";
const writeEveryMs = 60_000;
/** Of every token; other secrets are not looked up, because a digest costs some microseconds. */
const form = /^qs_[\w-]{43}$/;

type StoredSession = { createdAtMs: number; lastUsedMs: number; keyId: string };
type LiveSession = StoredSession & { writtenMs: number };

export class Sessions {
  readonly #credentials: Credentials;
  readonly #keyId: string;
  readonly #clock: () => number;
  readonly #live = new Map<string, LiveSession>();
  readonly #writes: BackgroundWrites;
  readonly #sessionsMax: number;
  /** Sessions that are being stored for the first time. */
  #creating = 0;

  /**
   * Loads the sessions of earlier runs and removes those that have expired or belong to another key.
   * @param keyId of the admin key that sessions are bound to
   */
  constructor(
    credentials: Credentials,
    keyId: string,
    clock: () => number,
    onWriteError: (error: unknown) => void,
    sessionsMax: number = limits.sessionsMax,
  ) {
    this.#sessionsMax = sessionsMax;
    this.#credentials = credentials;
    this.#keyId = keyId;
    this.#clock = clock;
    this.#writes = new BackgroundWrites(onWriteError);
    for (const [key, value] of credentials.entries(prefix)) {
      const stored = value as StoredSession;
      if (stored.keyId === keyId && !this.#isOver(stored)) {
        this.#live.set(key, { ...stored, writtenMs: stored.lastUsedMs });
      } else this.#writes.add(credentials.delete(key));
    }
    credentials.onChange((key, value) => this.#follow(key, value as StoredSession | undefined));
  }

  /** Keeps or forgets a session that was begun, used or ended, here or on another node. */
  #follow(key: string, stored: StoredSession | undefined): void {
    if (!key.startsWith(prefix)) return;
    if (stored === undefined) this.#live.delete(key);
    else if (stored.keyId === this.#keyId) {
      const lastUsedMs = Math.max(stored.lastUsedMs, this.#live.get(key)?.lastUsedMs ?? 0);
      this.#live.set(key, { ...stored, lastUsedMs, writtenMs: stored.lastUsedMs });
    }
  }

  get count(): number {
    return this.#live.size;
  }

  /**
   * Resolves when the session is durable.
   * @throws too_many_sessions; a new login never ends a session that is in use
   */
  async create(): Promise<Session> {
    const now = this.#clock();
    const ended = [...this.#live].filter(([, session]) => this.#isOver(session)).map(([key]) => key);
    for (const key of ended) this.#end(key);
    if (this.#live.size + this.#creating >= this.#sessionsMax) throw this.#tooMany();

    const token = `qs_${randomSecret()}`;
    const stored = { createdAtMs: now, lastUsedMs: now, keyId: this.#keyId };
    const key = keyOf(token);
    this.#creating++;
    try {
      await this.#credentials.put(key, stored);
    } finally {
      this.#creating--;
    }
    return {
      access_token: token,
      created_at: Math.floor(now / 1000),
      expires_at: Math.floor((now + limits.sessionIdleMs) / 1000),
    };
  }

  /**
   * The access of the token's live session, whose expiry this use extends; undefined if it has none. The id of a session is a prefix of the
   * token's digest: it distinguishes sessions in the audit log without revealing anything.
   */
  use(token: string): Access | undefined {
    if (!form.test(token)) return undefined;
    const key = keyOf(token);
    const session = this.#live.get(key);
    if (session === undefined) return undefined;
    if (this.#isOver(session)) {
      this.#end(key);
      return undefined;
    }
    session.lastUsedMs = this.#clock();
    if (session.lastUsedMs - session.writtenMs >= writeEveryMs) this.#write(key, session);
    const id = key.slice(prefix.length, prefix.length + 16);
    return new Access(`session:${id}`, "admin", null, () => this.#requireLiving(key));
  }

  /** @throws unauthorized if there is no live session under this key */
  #requireLiving(key: string): void {
    const session = this.#live.get(key);
    if (session !== undefined && !this.#isOver(session)) return;
    throw new QuiverError(
      "unauthorized",
      "The session ended before the request was executed. Nothing was changed. Create another session.",
    );
  }

  /** Stores every last use and waits for the writes. */
  async close(): Promise<void> {
    for (const [key, session] of this.#live) {
      if (session.lastUsedMs !== session.writtenMs) this.#write(key, session);
    }
    await this.#writes.settled();
  }

  #isOver(session: StoredSession): boolean {
    return this.#clock() - session.lastUsedMs >= limits.sessionIdleMs;
  }

  #tooMany(): QuiverError {
    let firstEndsMs = Number.POSITIVE_INFINITY;
    for (const { lastUsedMs } of this.#live.values())
      firstEndsMs = Math.min(firstEndsMs, lastUsedMs + limits.sessionIdleMs);
    const waitMs = Number.isFinite(firstEndsMs) ? firstEndsMs - this.#clock() : limits.sessionIdleMs;
    const seconds = Math.max(1, Math.ceil(waitMs / 1000));
    return new QuiverError(
      "too_many_sessions",
      `There are ${this.#sessionsMax} sessions, which is the limit; the first of them expires in ${seconds} seconds if it is not used. ` +
        "Use the token of an existing session, or an API key (POST /auth/keys), which needs no session.",
      { limit: this.#sessionsMax, retry_after_seconds: seconds },
    );
  }

  #end(key: string): void {
    this.#live.delete(key);
    this.#writes.add(this.#credentials.delete(key));
  }

  #write(key: string, session: LiveSession): void {
    session.writtenMs = session.lastUsedMs;
    const { createdAtMs, lastUsedMs, keyId } = session;
    this.#writes.add(this.#credentials.put(key, { createdAtMs, lastUsedMs, keyId } satisfies StoredSession));
  }
}

const keyOf = (token: string) => prefix + digest(token).toString("hex");
