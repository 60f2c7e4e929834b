// What does a route need, and does the caller have it?
//
// A caller has a role and a set of collections: all of them, or those that its key is limited to. A route declares the role that it needs
// and where it names collections. A request for a collection outside the key's set is rejected whether the collection exists or not, so
// that the key reveals nothing about other collections. If an endpoint declares nothing, the strictest rule applies.

import type { Operation } from "@quiverdb/engine/operations/operations";
import { QuiverError } from "@quiverdb/protocol/errors";
import type { Filter } from "@quiverdb/protocol/shapes/filter";
import { type Role, roles } from "@quiverdb/protocol/shapes/key";

/** What an endpoint requires of its callers. */
export type Need = {
  readonly role: Role | "anyone";
  /** Where it names collections; `nowhere`: only for keys without a limit to collections. */
  readonly collections: "path" | "body.name" | "answer" | "nowhere";
  /** Whether it is open to keys with a filter. */
  readonly takesFilter: boolean;
};

/** The requirement of an endpoint that declares none. */
export const strictestNeed: Need = { role: "admin", collections: "nowhere", takesFilter: false };

export function needOf(route: Operation): Need {
  const inPath = route.path.includes("{collection_id}") ? "path" : "nowhere";
  return {
    role: route.role,
    collections: route.collections ?? inPath,
    takesFilter: route.keyFilter !== undefined,
  };
}

/** The caller of a request and its permissions. */
export class Access {
  /** The name in the audit log: `admin-key`, `session:<id>`, `key:<key_id>`, `no-auth`. */
  readonly who: string;
  readonly role: Role;
  /** Its share of the server's time relative to other keys. */
  readonly weight: number;
  /** Names, and prefixes that end in a star; null for all. */
  readonly collections: readonly string[] | null;
  /** Only records that match exist for the caller; null: all. */
  readonly filter: Filter | null;
  /** When it ends, in milliseconds since 1970; null: not by itself. */
  readonly expiresAtMs: number | null;
  /** The account for the caller's work: its key. Sessions are created with the admin key and use its account. */
  readonly payer: string;
  /**
   * Checks again that the key or session is valid. Call it before anything is applied: since the request began, the body may have arrived
   * slowly, and the request may have waited in a queue.
   * @throws unauthorized
   */
  readonly requireValid: () => void;

  /** @param requireValid throws if the caller's key or session is no longer valid; absent if it cannot become invalid */
  constructor(
    who: string,
    role: Role,
    collections: readonly string[] | null = null,
    requireValid: () => void = () => {},
    weight = 1,
    expiresAtMs: number | null = null,
    filter: Filter | null = null,
  ) {
    this.who = who;
    this.role = role;
    this.weight = weight;
    this.expiresAtMs = expiresAtMs;
    this.filter = filter;
    this.collections = collections;
    this.payer = who.startsWith("session:") ? "admin-key" : who;
    this.requireValid = requireValid;
  }

  /** True if the caller may see a collection of this name. */
  reaches(collection: string): boolean {
    if (this.collections === null) return true;
    return this.collections.some((pattern) =>
      pattern.endsWith("*") ? collection.startsWith(pattern.slice(0, -1)) : collection === pattern,
    );
  }

  /**
   * Checks the permissions that do not depend on the body.
   * @param collection the one in the path
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
    if (need.collections === "nowhere" && this.collections !== null) {
      throw new QuiverError(
        "forbidden",
        "The request concerns the whole server, and the key is limited to some collections. " +
          "Send a key without that limit.",
      );
    }
    if (!need.takesFilter && this.filter !== null) {
      throw new QuiverError(
        "forbidden",
        "The request concerns more than the records that match the filter of the key. Send a key without a filter.",
      );
    }
  }

  /** @throws forbidden */
  requireCollection(name: string): void {
    if (this.reaches(name)) return;
    const shown = name.slice(0, 300);
    throw new QuiverError(
      "forbidden",
      `The key has no access to the collection '${shown}'. Send a key whose collections include it.`,
      { collection: shown },
    );
  }
}

/** The access of a request without a key, which no endpoint that needs a key accepts. */
export const nobody = new Access("nobody", "read", []);
