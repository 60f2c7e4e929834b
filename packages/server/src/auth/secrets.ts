// How are secrets made, and how are they compared without telling anything by the time it takes?

import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

/** 32 random bytes as 43 characters that need no escaping anywhere. */
export const randomSecret = (): string => randomBytes(32).toString("base64url");

/** SHA-256. Enough for secrets of 256 random bits, and cheap enough for every request. */
export const digest = (text: string, salt = ""): Buffer =>
  createHash("sha256").update(salt).update("\0").update(text).digest();

/** Compares two digests in a time that depends on neither. */
export const sameDigest = (one: Buffer, other: Buffer): boolean =>
  one.length === other.length && timingSafeEqual(one, other);
