// Where does the admin key come from, and how is it verified without being stored?
//
//   configured        the configured key is valid for this run; nothing of it is stored
//   stored verifier   an earlier start generated the key; `admin-key` in the catalog has its salted digest
//   neither           a key is generated and written to `<dataDir>/admin-key`, readable only by its owner
//
// The file is written before the verifier: after a crash between the two, the next start replaces the file; the other order could lose the
// only copy of the key.

import { randomBytes, scrypt } from "node:crypto";
import { open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import type { Credentials } from "@quiverdb/engine/database/contract";
import { digest, randomSecret, sameDigest } from "./secrets.ts";

const adminKeyFileName = "admin-key";

const saltKey = "admin-salt";
const verifierKey = "admin-key";

type Verifier = { readonly sha256: string; readonly keyId: string };

export type AdminKey = {
  /** True for the key itself; the time does not depend on how much of a guess is right. */
  isKey(candidate: string): boolean;
  /**
   * Identifies the key without revealing it, and stays the same across restarts. Sessions are bound to it, so that a new key ends the
   * sessions of the old one.
   */
  readonly keyId: string;
  /** True for a generated key of 256 random bits; a configured one may be a short word. */
  readonly isRandom: boolean;
  /** The file that the key was written to, if this start generated it. */
  readonly file: string | undefined;
};

/** Finds or generates the key that requests are checked against. */
export async function openAdminKey(
  credentials: Credentials,
  dataDir: string,
  configured: string | undefined,
): Promise<AdminKey> {
  const salt = await storedSalt(credentials);
  if (configured !== undefined) {
    return adminKey(digest(configured, salt), await keyIdOf(configured, salt), false);
  }
  const stored = credentials.get(verifierKey) as Verifier | undefined;
  if (stored !== undefined) return adminKey(Buffer.from(stored.sha256, "hex"), stored.keyId, true);

  const key = `qv_${randomSecret()}`;
  const file = join(dataDir, adminKeyFileName);
  await writeSecretFile(file, key);
  const expected = digest(key, salt);
  const keyId = await keyIdOf(key, salt);
  const own = { sha256: expected.toString("hex"), keyId } satisfies Verifier;
  const first = (await credentials.putFirst(verifierKey, own)) as Verifier;
  // Another node of the cluster has generated a key at the same time.
  if (first.sha256 !== own.sha256) {
    await rm(file);
    return adminKey(Buffer.from(first.sha256, "hex"), first.keyId, true);
  }
  return adminKey(expected, keyId, true, file);

  function adminKey(expected: Buffer, keyId: string, isRandom: boolean, file?: string): AdminKey {
    return { isKey: (candidate) => sameDigest(digest(candidate, salt), expected), keyId, isRandom, file };
  }
}

async function storedSalt(credentials: Credentials): Promise<string> {
  const stored = credentials.get(saltKey);
  if (typeof stored === "string") return stored;
  return (await credentials.putFirst(saltKey, randomBytes(16).toString("hex"))) as string;
}

/** Deliberately slow, once per start: a configured key may be a short word, and session records on disk contain its id. */
async function keyIdOf(key: string, salt: string): Promise<string> {
  const derived = (await promisify(scrypt)(key, `${salt}/key-id`, 16)) as Buffer;
  return derived.toString("hex");
}

/** Replaces the file in one step; no other user can read it at any moment. */
async function writeSecretFile(path: string, secret: string): Promise<void> {
  const draft = `${path}.new`;
  await rm(draft, { force: true });
  const file = await open(draft, "wx", 0o600);
  try {
    await file.writeFile(`${secret}\n`);
    await file.sync();
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  } finally {
    await file.close();
  }
  await rename(draft, path);
  // The verifier is written next, durably; the directory entry of the only copy of the key must be durable before it.
  const directory = await open(dirname(path), "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
