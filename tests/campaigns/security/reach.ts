// Does a key have access to exactly the collections that it names, whatever the names, and does no guessed key get in?
//
// The reference implementation matches a pattern that it builds from the key's collections; the server compares strings.

import type { Role } from "@quiverdb/protocol/shapes/key";
import { collectionBody, type ProbedServer } from "./probed-server.ts";

/** Short names of few letters, so that prefixes of each other are common, including special characters. */
const letters = ["a", "b", "A", "*", ".", "-", "+", "(", "[", "$", "^", "|", " ", "é", "e\u0301", "漢", "😀"];

function randomName(random: () => number): string {
  const length = 1 + Math.floor(random() * 4);
  const name = Array.from({ length }, () => letters[Math.floor(random() * letters.length)]).join("");
  return name === "." || name === ".." ? "a" : name;
}

function reference(collections: readonly string[], name: string): boolean {
  return collections.some((pattern) => {
    const isPrefix = pattern.endsWith("*");
    const escaped = (isPrefix ? pattern.slice(0, -1) : pattern).replaceAll(/[$()*+.?[\\\]^{|}]/g, "\\$&");
    return new RegExp(`^${escaped}${isPrefix ? ".*" : ""}$`, "su").test(name);
  });
}

/** @returns pairs of key and name @throws Error at the first wrong decision */
export async function probeReach(probed: ProbedServer, keys: number, random: () => number): Promise<number> {
  const existing = new Set<string>(["c"]);
  for (let i = 0; i < 8; i++) {
    const name = randomName(random);
    const { status } = await probed.call("createCollection", {}, collectionBody(name));
    if (status === 201) existing.add(name);
  }
  let pairs = 0;
  for (let i = 0; i < keys; i++) {
    const collections = Array.from({ length: 1 + Math.floor(random() * 3) }, () => {
      return `${randomName(random)}${random() < 0.5 ? "*" : ""}`;
    });
    const role: Role = "read";
    const made = JSON.parse((await probed.call("createKey", {}, { name: "k", role, collections })).text);
    probed.keepSecret(made.key.slice(-43));
    const ask = (name: string) => probed.call("getCollection", { collection_id: name }, undefined, made.key);
    for (const name of [...existing, ...Array.from({ length: 4 }, () => randomName(random))]) {
      const { status } = await ask(name);
      const expected = !reference(collections, name) ? 403 : existing.has(name) ? 200 : 404;
      if (status !== expected) {
        throw new Error(
          `${JSON.stringify(name)} by a key for ${JSON.stringify(collections)}: ${status}, not ${expected}`,
        );
      }
      pairs++;
    }
    const listed = JSON.parse((await probed.call("listCollections", {}, undefined, made.key)).text);
    const seen = listed.collections.map(({ name }: { name: string }) => name).sort();
    const expected = [...existing].filter((name) => reference(collections, name)).sort();
    if (JSON.stringify(seen) !== JSON.stringify(expected)) {
      throw new Error(`a key for ${JSON.stringify(collections)} is told of ${JSON.stringify(seen)}`);
    }
    const { status } = await probed.call("revokeKey", { key_id: made.key_id });
    if (status !== 204 || (await ask("c")).status !== 401)
      throw new Error("a revoked key was not refused at once");
  }
  return pairs;
}

/** Tries nearly correct keys. @returns how many @throws Error if one gets in */
export async function probeGuesses(
  probed: ProbedServer,
  guesses: number,
  random: () => number,
): Promise<number> {
  const { key } = JSON.parse((await probed.call("createKey", {}, { name: "k", role: "admin" })).text);
  const session = await probed.ask("/auth/create-session", {
    body: { username: "admin", password: "campaign-admin-key-3f9c" },
    key: null,
  });
  const { access_token } = JSON.parse(session.text);
  const right = [key as string, access_token as string];
  for (const each of right) {
    if ((await probed.ask("/auth/keys", { key: each })).status !== 200)
      throw new Error("a right key was refused");
  }
  for (const each of right) probed.keepSecret(each.slice(-43));
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  for (let i = 0; i < guesses; i++) {
    const chars = [...right[i % right.length]];
    // One character wrong, missing, doubled, or two swapped.
    const at = Math.floor(random() * chars.length);
    const kind = i % 4;
    if (kind === 0) chars[at] = alphabet[Math.floor(random() * alphabet.length)];
    if (kind === 1) chars.splice(at, 1);
    if (kind === 2) chars.splice(at, 0, chars[at]);
    if (kind === 3) [chars[0], chars[at]] = [chars[at], chars[0]];
    const guess = chars.join("");
    if (right.includes(guess)) continue;
    const { status } = await probed.ask("/vectordb/collections", { key: guess });
    if (status !== 401) throw new Error(`a wrong key was answered with ${status}`);
  }
  return guesses;
}
