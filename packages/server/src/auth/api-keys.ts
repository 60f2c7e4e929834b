// Which API keys exist, what may each do, and how is a key verified without being stored?
//
//   qk_0123456789abcdef_<43 characters>
//      key id           256 random bits
//
// The catalog stores a salted SHA-256 of each key under the key's id. The id finds the entry, so that no secret is looked up by its value,
// and the digests are compared in constant time. A fast hash is right here: a slow one (scrypt, Argon2) makes guessing expensive when a
// person chose the secret and few candidates exist. Guessing one of 2^256 equally likely keys is hopeless anyway, and every request would
// pay for the slow hash.
//
// Creation and revocation are durable before they are acknowledged. From then on a revoked key is rejected, and so are its requests that
// have not started yet (`Access.requireValid`). The last use is stored at most once a minute, and at close.

import { randomBytes } from "node:crypto";
import { type Credentials, checkFilterOfKey } from "@quiverdb/engine/database/contract";
import { collectionNameProblem, collectionNameRule, prefixProblem } from "@quiverdb/protocol/collection-name";
import { fieldError, QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { CreateKey, KeyCreated, KeyInformation, Role } from "@quiverdb/protocol/shapes/key";
import { Access } from "./access.ts";
import { BackgroundWrites } from "./background-writes.ts";
import { digest, randomSecret, sameDigest } from "./secrets.ts";

const prefix = "api-key:";
/** Of keys with a filter: a server of an earlier version would use them without it, so it must not find them. */
const filteredPrefix = "filtered-api-key:";
const placeOf = (keyId: string, { filter }: Pick<StoredKey, "filter">): string =>
  (filter == null ? prefix : filteredPrefix) + keyId;
const writeEveryMs = 60_000;
const form = /^qk_([0-9a-f]{16})_[\w-]{43}$/;

type StoredKey = {
  name: string;
  role: Role;
  collections: string[] | null;
  /** Present if only records that match exist for the key. */
  filter?: Filter;
  /** Absent in keys from older servers. */
  weight?: number;
  salt: string;
  sha256: string;
  createdAtMs: number;
  expiresAtMs: number | null;
  lastUsedMs: number | null;
};
type LiveKey = { stored: StoredKey; readonly digest: Buffer; readonly access: Access; writtenMs: number };

/** Compared with if no key has the id, so that the response time does not reveal which ids exist. */
const nothing = digest(randomSecret());

export class ApiKeys {
  readonly #credentials: Credentials;
  readonly #clock: () => number;
  readonly #writes: BackgroundWrites;
  readonly #live = new Map<string, LiveKey>();
  /** Keys that are being stored for the first time. */
  #creating = 0;
  /** Makes all threads forget a caller; a revocation waits for it. */
  onRevoked: (who: string) => Promise<void> = async () => {};

  /** Loads the keys of earlier runs. */
  constructor(credentials: Credentials, clock: () => number, onWriteError: (error: unknown) => void) {
    this.#credentials = credentials;
    this.#clock = clock;
    this.#writes = new BackgroundWrites(onWriteError);
    for (const each of [prefix, filteredPrefix])
      for (const [key, value] of credentials.entries(each))
        this.#keep(key.slice(each.length), value as StoredKey);
    credentials.onChange((key, value) => this.#follow(key, value as StoredKey | undefined));
  }

  /** Keeps or forgets a key that was created or revoked, here or on another node. */
  async #follow(place: string, stored: StoredKey | undefined): Promise<void> {
    const matched = [prefix, filteredPrefix].find((each) => place.startsWith(each));
    if (matched === undefined) return;
    const keyId = place.slice(matched.length);
    const live = this.#live.get(keyId);
    if (stored !== undefined && live === undefined) this.#keep(keyId, stored);
    if (stored !== undefined || live === undefined) return;
    this.#live.delete(keyId);
    await this.onRevoked(live.access.who);
  }

  /** Resolves when the key is durable. @throws invalid_request for a request with impossible values */
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
      ...(request.filter != null && { filter: request.filter }),
      weight: request.weight ?? 1,
      salt,
      sha256: digest(key, salt).toString("hex"),
      createdAtMs: now,
      expiresAtMs: request.expires_at ? request.expires_at * 1000 : null,
      lastUsedMs: null,
    };
    this.#creating++;
    try {
      await this.#credentials.put(placeOf(keyId, stored), stored);
    } finally {
      this.#creating--;
    }
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

  /** Resolves when the revocation is durable; the key is rejected from the call on. @throws key_not_found */
  async revoke(keyId: string): Promise<void> {
    const live = this.#live.get(keyId);
    if (live === undefined) {
      throw new QuiverError(
        "key_not_found",
        "There is no API key with this id. GET /auth/keys lists the keys with their ids.",
      );
    }
    this.#live.delete(keyId);
    try {
      await this.onRevoked(live.access.who);
      await this.#credentials.delete(placeOf(keyId, live.stored));
    } catch (error) {
      this.#live.set(keyId, live);
      throw error;
    }
  }

  /**
   * The access of a key; undefined if the secret is not an API key of this server.
   * @throws unauthorized if the key has expired
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

  /** Checks that whoever pays for a write of another thread still may. @param payer `key:<key_id>`; others are not checked @throws unauthorized */
  requireValid(payer: string): void {
    if (!payer.startsWith("key:")) return;
    const live = this.#live.get(payer.slice("key:".length));
    if (live === undefined) throw revokedError();
    live.access.requireValid();
  }

  /** Stores every last use and waits for the writes. */
  async close(): Promise<void> {
    for (const [keyId, live] of this.#live) {
      if ((live.stored.lastUsedMs ?? 0) > live.writtenMs) this.#write(keyId, live);
    }
    await this.#writes.settled();
  }

  #keep(keyId: string, stored: StoredKey): void {
    const requireValid = () => {
      requireUnexpired(stored, this.#clock());
      if (this.#live.get(keyId)?.stored !== stored) throw revokedError();
    };
    this.#live.set(keyId, {
      stored,
      digest: Buffer.from(stored.sha256, "hex"),
      access: new Access(
        `key:${keyId}`,
        stored.role,
        stored.collections,
        requireValid,
        stored.weight,
        stored.expiresAtMs,
        stored.filter,
      ),
      writtenMs: stored.lastUsedMs ?? 0,
    });
  }

  #write(keyId: string, live: LiveKey): void {
    live.writtenMs = live.stored.lastUsedMs ?? 0;
    this.#writes.add(this.#credentials.note(placeOf(keyId, live.stored), { ...live.stored }));
  }
}

export const revokedError = (): QuiverError =>
  new QuiverError(
    "unauthorized",
    "The API key was revoked before the request was executed. Nothing was changed. Send another key.",
  );

/** @throws unauthorized */
export function requireUnexpired({ expiresAtMs }: Pick<StoredKey, "expiresAtMs">, nowMs: number): void {
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
    filter: stored.filter ?? null,
    weight: stored.weight ?? 1,
    created_at: Math.floor(stored.createdAtMs / 1000),
    expires_at: seconds(stored.expiresAtMs),
    last_used_at: seconds(stored.lastUsedMs),
  };
}

/** Largest time that a JavaScript date can hold, in seconds. */
const secondsMax = 8_640_000_000_000;

/** The checks that the shape cannot express. */
function checkCreateKey(request: CreateKey, now: number): void {
  checkText("name", request.name, limits.apiKeyNameBytesMax);
  request.collections?.forEach((pattern, index) => {
    const problem = pattern.endsWith("*")
      ? prefixProblem(pattern.slice(0, -1))
      : collectionNameProblem(pattern);
    if (problem === null) return;
    const path = `collections[${index}]`;
    throw fieldError(
      path,
      "a valid collection name, or a prefix of one that ends in a star",
      problem,
      `${path} ${problem}; no collection can have this name. A collection name has ${collectionNameRule}; with a star at the end, ` +
        "it matches all names with this prefix.",
    );
  });
  checkKeyFilter(request);
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

/** @throws invalid_filter, invalid_request */
function checkKeyFilter({ filter, role }: CreateKey): void {
  if (filter === null || filter === undefined) return;
  const { length } = storedText(filter);
  if (length > limits.apiKeyFilterLengthMax) {
    const expected = `at most ${limits.apiKeyFilterLengthMax} characters as JSON`;
    throw fieldError(
      "filter",
      expected,
      `${length}`,
      `filter has ${length} characters as JSON; expected ${expected}.`,
    );
  }
  checkFilterOfKey(filter);
  if (role !== "admin") return;
  throw fieldError(
    "role",
    "read or write",
    "admin",
    "role must be read or write for a key with a filter: what needs the role admin concerns all records.",
  );
}

/** The text of a filter as it is stored. @throws invalid_filter if it has a number that is no 64-bit float, which would be stored as null */
function storedText(filter: Filter): string {
  return JSON.stringify(filter, (key, value) => {
    if (typeof value !== "number" || Number.isFinite(value)) return value;
    throw new QuiverError(
      "invalid_filter",
      `filter has a number at '${key}' that is too great for a 64-bit float; expected one up to ${Number.MAX_VALUE}.`,
      { path: "filter" },
    );
  });
}

function checkText(path: string, text: string, bytesMax: number): void {
  const bytes = Buffer.byteLength(text);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused.
  if (bytes <= bytesMax && !/[\u0000-\u001f\u007f]/.test(text)) return;
  const expected = `at most ${bytesMax} bytes of UTF-8 without control characters`;
  throw fieldError(path, expected, `${bytes} bytes`, `${path} must be ${expected}.`);
}
