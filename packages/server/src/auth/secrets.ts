// How are secrets generated, and how are they compared in constant time?

import { hash, randomBytes, timingSafeEqual } from "node:crypto";

/** 32 random bytes as 43 characters that never need escaping. */
export const randomSecret = (): string => randomBytes(32).toString("base64url");

/** SHA-256. Strong enough for secrets of 256 random bits, and cheap enough for every request. */
export const digest = (text: string, salt = ""): Buffer => hash("sha256", `${salt}\0${text}`, "buffer");

/** Compares two digests in constant time. */
export const sameDigest = (one: Buffer, other: Buffer): boolean =>
  one.length === other.length && timingSafeEqual(one, other);
