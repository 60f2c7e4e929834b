// What does a route need, and does the caller have it?
//
// A caller has a role, and collections: all of them, or those that its key is limited to. A route needs a role, and it
// says where it names collections. Whoever names one that the key does not reach is refused whether it exists or not, so
// that a key tells nothing about other collections. What an endpoint does not say is decided against the caller.

import { QuiverError } from "@quiver/protocol/errors";
import type { Route } from "@quiver/protocol/routes";
import { type Role, roles } from "@quiver/protocol/shapes/key";

/** What an endpoint asks of its callers. */
export type Need = {
  readonly role: Role | "anyone";
  /** Where it names collections; `nowhere`: only a key that reaches all of them will do. */
  readonly collections: "path" | "body.name" | "answer" | "nowhere";
};

/** Of an endpoint that says nothing of itself. */
export const strictestNeed: Need = { role: "admin", collections: "nowhere" };

export function needOf(route: Route): Need {
  const inPath = route.path.includes("{collection_id}") ? "path" : "nowhere";
  return { role: route.role, collections: route.collections ?? inPath };
}

/** Who calls, and what that caller may do. */
export class Access {
  /** As the audit log has it: `admin-key`, `session:<id>`, `key:<key_id>`, `no-auth`. */
  readonly who: string;
  readonly role: Role;
  /** Its share of the server's time beside other keys. */
  readonly weight: number;
  /** Names, and prefixes with a star at the end; null for all. */
  readonly #collections: readonly string[] | null;
  readonly #requireValid: () => void;

  /** @param requireValid throws when what the caller has shown is no longer valid; absent where it stays so */
  constructor(
    who: string,
    role: Role,
    collections: readonly string[] | null = null,
    requireValid: () => void = () => {},
    weight = 1,
  ) {
    this.who = who;
    this.role = role;
    this.weight = weight;
    this.#collections = collections;
    this.#requireValid = requireValid;
  }

  /**
   * Looks again whether the key or session is valid. To be called when time has passed since the request began, before
   * anything is applied: a body may come slowly, and its turn late.
   * @throws unauthorized
   */
  requireValid(): void {
    this.#requireValid();
  }

  /** Who pays for the caller's work: its key. Sessions are made with the admin key and pay as it does. */
  get payer(): string {
    return this.who.startsWith("session:") ? "admin-key" : this.who;
  }

  /** True when the caller may know of a collection of this name. */
  reaches(collection: string): boolean {
    if (this.#collections === null) return true;
    return this.#collections.some((pattern) =>
      pattern.endsWith("*") ? collection.startsWith(pattern.slice(0, -1)) : collection === pattern,
    );
  }

  /**
   * Checks what can be known before the body is read.
   * @param collection the one that the path names
   * @throws forbidden
   */
  require(need: Need, collection: string | undefined): void {
    if (need.role === "anyone") return;
    if (roles.indexOf(this.role) < roles.indexOf(need.role)) {
      throw new QuiverError(
        "forbidden",
        `The request needs the role ${need.role}, and the key has the role ${this.role}. ` +
          `Send a key with the role ${need.role}.`,
        { needed_role: need.role, role: this.role },
      );
    }
    if (need.collections === "path") this.requireCollection(collection ?? "");
    if (need.collections === "nowhere" && this.#collections !== null) {
      throw new QuiverError(
        "forbidden",
        "The request is about the server as a whole, and the key is limited to some collections. " +
          "Send a key without that limit.",
      );
    }
  }

  /** @throws forbidden */
  requireCollection(name: string): void {
    if (this.reaches(name)) return;
    const shown = name.slice(0, 300);
    throw new QuiverError(
      "forbidden",
      `The key does not reach the collection '${shown}'. Send a key whose collections have it.`,
      { collection: shown },
    );
  }
}

/** Of a request that needs no key; it reaches nothing that does. */
export const nobody = new Access("nobody", "read", []);
