// How are secrets generated, and how are they compared in constant time?

import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

/** 32 random bytes as 43 characters that never need escaping. */
export const randomSecret = (): string => randomBytes(32).toString("base64url");

/** SHA-256. Strong enough for secrets of 256 random bits, and cheap enough for every request. */
export const digest = (text: string, salt = ""): Buffer =>
  createHash("sha256").update(salt).update("\0").update(text).digest();

/** Compares two digests in constant time. */
export const sameDigest = (one: Buffer, other: Buffer): boolean =>
  one.length === other.length && timingSafeEqual(one, other);
