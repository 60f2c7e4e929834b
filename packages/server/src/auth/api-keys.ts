// Which API keys are there, what may each do, and how is one known without being kept?
//
//   qk_0123456789abcdef_<43 characters>
//      key id           256 random bits
//
// Of a key the catalog has a salted SHA-256, under the key's id: the id finds the entry, so that nothing secret is
// looked up by its value, and the digests are compared in constant time. A fast hash is right here. A slow one (scrypt,
// Argon2) makes a guess expensive where a person chose the secret and there are few to try; among 2^256 equally likely
// ones there is nothing to try, and the price would be paid by every request.
//
// Made and revoked are durable before they are acknowledged; a revoked key is refused from then on, and so is what it has
// asked for and is not begun yet (`Access.requireValid`). The last use is
// written down at most once a minute, and at close.

import { randomBytes } from "node:crypto";
import type { Credentials } from "@quiver/engine/database/contract";
import {
  beginningProblem,
  collectionNameProblem,
  collectionNameRule,
} from "@quiver/protocol/collection-name";
import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";
import type { CreateKey, KeyCreated, KeyInformation, Role } from "@quiver/protocol/shapes/key";
import { fieldError } from "../request/validation.ts";
import { Access } from "./access.ts";
import { BackgroundWrites } from "./background-writes.ts";
import { digest, randomSecret, sameDigest } from "./secrets.ts";

const prefix = "api-key:";
const writeEveryMs = 60_000;
const form = /^qk_([0-9a-f]{16})_[\w-]{43}$/;

type StoredKey = {
  name: string;
  role: Role;
  collections: string[] | null;
  /** Absent in keys that older servers have made. */
  weight?: number;
  salt: string;
  sha256: string;
  createdAtMs: number;
  expiresAtMs: number | null;
  lastUsedMs: number | null;
};
type LiveKey = { stored: StoredKey; readonly digest: Buffer; readonly access: Access; writtenMs: number };

/** Compared with where there is no key of the id, so that the time does not tell ids apart. */
const nothing = digest(randomSecret());

export class ApiKeys {
  readonly #credentials: Credentials;
  readonly #clock: () => number;
  readonly #writes: BackgroundWrites;
  readonly #live = new Map<string, LiveKey>();
  /** Keys that are being written down for the first time. */
  #creating = 0;

  /** Takes over the keys of earlier starts. */
  constructor(credentials: Credentials, clock: () => number, onWriteError: (error: unknown) => void) {
    this.#credentials = credentials;
    this.#clock = clock;
    this.#writes = new BackgroundWrites(onWriteError);
    for (const [key, value] of credentials.entries(prefix)) {
      this.#keep(key.slice(prefix.length), value as StoredKey);
    }
  }

  /** @throws invalid_request for a request that says something impossible; resolves when the key is durable */
  async create(request: CreateKey): Promise<KeyCreated> {
    const now = this.#clock();
    checkCreateKey(request, now);
    if (this.#live.size + this.#creating >= limits.apiKeysMax) {
      throw new QuiverError(
        "invalid_request",
        `There are ${limits.apiKeysMax} API keys, which is the limit. Revoke one that is not needed; expired ones count.`,
        { limit: limits.apiKeysMax },
      );
    }
    const keyId = randomBytes(8).toString("hex");
    const key = `qk_${keyId}_${randomSecret()}`;
    const salt = randomBytes(16).toString("hex");
    const stored: StoredKey = {
      name: request.name,
      role: request.role,
      collections: request.collections ? [...new Set(request.collections)] : null,
      weight: request.weight ?? 1,
      salt,
      sha256: digest(key, salt).toString("hex"),
      createdAtMs: now,
      expiresAtMs: request.expires_at ? request.expires_at * 1000 : null,
      lastUsedMs: null,
    };
    this.#creating++;
    try {
      await this.#credentials.put(prefix + keyId, stored);
    } finally {
      this.#creating--;
    }
    this.#keep(keyId, stored);
    return { ...informationOf(keyId, stored), key };
  }

  /** All keys, oldest first. */
  list(): KeyInformation[] {
    return [...this.#live]
      .sort(([id, a], [otherId, b]) => {
        return a.stored.createdAtMs - b.stored.createdAtMs || (id < otherId ? -1 : 1);
      })
      .map(([keyId, { stored }]) => informationOf(keyId, stored));
  }

  /** Resolves when the revocation is durable; the key is refused from the call on. @throws key_not_found */
  async revoke(keyId: string): Promise<void> {
    const live = this.#live.get(keyId);
    if (live === undefined) {
      throw new QuiverError(
        "key_not_found",
        "There is no API key with this id. GET /auth/keys lists the keys with their ids.",
      );
    }
    // From here on no last use is written any more, which would bring the entry back.
    this.#live.delete(keyId);
    try {
      await this.#credentials.delete(prefix + keyId);
    } catch (error) {
      this.#live.set(keyId, live);
      throw error;
    }
  }

  /**
   * What the holder of a key may do; undefined when the secret is no API key of this server.
   * @throws unauthorized when it is one that has expired
   */
  use(secret: string): Access | undefined {
    const keyId = form.exec(secret)?.[1];
    if (keyId === undefined) return undefined;
    const live = this.#live.get(keyId);
    const isKey = sameDigest(digest(secret, live?.stored.salt), live?.digest ?? nothing);
    if (live === undefined || !isKey) return undefined;
    const now = this.#clock();
    requireUnexpired(live.stored, now);
    live.stored.lastUsedMs = now;
    if (now - live.writtenMs >= writeEveryMs) this.#write(keyId, live);
    return live.access;
  }

  /** Writes down every last use and waits for what is being written. */
  async close(): Promise<void> {
    for (const [keyId, live] of this.#live) {
      if ((live.stored.lastUsedMs ?? 0) > live.writtenMs) this.#write(keyId, live);
    }
    await this.#writes.settled();
  }

  #keep(keyId: string, stored: StoredKey): void {
    const requireValid = () => {
      requireUnexpired(stored, this.#clock());
      if (this.#live.get(keyId)?.stored !== stored)
        throw new QuiverError(
          "unauthorized",
          "The API key was revoked before the request was carried out. Nothing of it was done. Send another key.",
        );
    };
    this.#live.set(keyId, {
      stored,
      digest: Buffer.from(stored.sha256, "hex"),
      access: new Access(`key:${keyId}`, stored.role, stored.collections, requireValid, stored.weight),
      writtenMs: stored.lastUsedMs ?? 0,
    });
  }

  #write(keyId: string, live: LiveKey): void {
    live.writtenMs = live.stored.lastUsedMs ?? 0;
    this.#writes.add(this.#credentials.put(prefix + keyId, { ...live.stored }));
  }
}

/** @throws unauthorized */
function requireUnexpired({ expiresAtMs }: StoredKey, nowMs: number): void {
  if (expiresAtMs === null || nowMs < expiresAtMs) return;
  throw new QuiverError(
    "unauthorized",
    `The API key expired at ${new Date(expiresAtMs).toISOString()}. Send another one.`,
    { expired_at: Math.floor(expiresAtMs / 1000) },
  );
}

const seconds = (ms: number | null) => (ms === null ? null : Math.floor(ms / 1000));

function informationOf(keyId: string, stored: StoredKey): KeyInformation {
  return {
    key_id: keyId,
    name: stored.name,
    role: stored.role,
    collections: stored.collections,
    weight: stored.weight ?? 1,
    created_at: Math.floor(stored.createdAtMs / 1000),
    expires_at: seconds(stored.expiresAtMs),
    last_used_at: seconds(stored.lastUsedMs),
  };
}

/** Largest time that a JavaScript date can hold, in seconds. */
const secondsMax = 8_640_000_000_000;

/** What the shape cannot say. */
function checkCreateKey(request: CreateKey, now: number): void {
  checkText("name", request.name, limits.apiKeyNameBytesMax);
  request.collections?.forEach((pattern, index) => {
    const problem = pattern.endsWith("*")
      ? beginningProblem(pattern.slice(0, -1))
      : collectionNameProblem(pattern);
    if (problem === null) return;
    const path = `collections[${index}]`;
    throw fieldError(
      path,
      "a name that a collection can have, or the beginning of one with a star",
      problem,
      `${path} ${problem}; no collection is called so. A collection name has ${collectionNameRule}; with a star at the end, ` +
        "it stands for all that begin so.",
    );
  });
  const { expires_at: expiresAt } = request;
  if (typeof expiresAt !== "number") return;
  const nowSeconds = Math.floor(now / 1000);
  if (expiresAt > nowSeconds && expiresAt <= secondsMax) return;
  const expected = `unix seconds from ${nowSeconds + 1} to ${secondsMax}`;
  throw fieldError(
    "expires_at",
    expected,
    `${expiresAt}`,
    `expires_at must be ${expected}, not ${expiresAt}.`,
  );
}

function checkText(path: string, text: string, bytesMax: number): void {
  const bytes = Buffer.byteLength(text);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused.
  if (bytes <= bytesMax && !/[\u0000-\u001f\u007f]/.test(text)) return;
  const expected = `at most ${bytesMax} bytes of UTF-8 without control characters`;
  throw fieldError(path, expected, `${bytes} bytes`, `${path} must be ${expected}.`);
}
