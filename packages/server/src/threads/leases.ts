// How does a serving thread know who calls?
//
// The owner decides (auth/gate.ts): it has the keys, the sessions and the counts of failed attempts. A thread keeps what the owner said of a
// secret for `leaseMs`, and asks again after that; refusals are never kept. So the owner learns of every use within that time, which is
// how precise `last_used_at` is. A key that is revoked is forgotten by all threads before the revocation is acknowledged.

import type { Filter } from "@quiverdb/protocol/shapes/filter";
import type { Role } from "@quiverdb/protocol/shapes/key";
import { Access } from "../auth/access.ts";
import { requireUnexpired, revokedError } from "../auth/api-keys.ts";
import type { Credentials, Gate } from "../auth/gate.ts";

/** How long a thread knows a caller, in milliseconds. */
const leaseMs = 5_000;

/** Callers that a thread knows at a time; beyond this it forgets the ones that it has known longest. */
const knownMax = 10_000;

/** What the owner says of a caller. */
export type Lease = {
  readonly who: string;
  readonly role: Role;
  readonly collections: readonly string[] | null;
  readonly weight: number;
  readonly filter: Filter | null;
  /** When the key expires, in milliseconds since 1970. */
  readonly expiresAtMs: number | null;
  /** The number of its account (shared-counts.ts). */
  readonly account: number;
};

export type EnterCall = { readonly headers: Credentials; readonly address: string };

type Known = { readonly access: Access; readonly untilMs: number; isForgotten: boolean };

/** The gate of a thread. */
export class LeasedGate implements Gate {
  readonly keys = undefined;
  readonly #ask: (call: EnterCall) => Promise<Lease>;
  readonly #onAccount: (payer: string, account: number) => void;
  readonly #clock: () => number;
  /** By the values of the headers that the owner looks at. */
  readonly #known = new Map<string, Known>();

  /** @param onAccount called with the number of a payer's account, before the payer is let in */
  constructor(
    ask: (call: EnterCall) => Promise<Lease>,
    onAccount: (payer: string, account: number) => void,
    clock: () => number,
  ) {
    this.#ask = ask;
    this.#onAccount = onAccount;
    this.#clock = clock;
  }

  enter({ authorization, host, origin }: Credentials, address: string): Access | Promise<Access> {
    const what = `${authorization}\n${host}\n${origin}`;
    const known = this.#known.get(what);
    if (known !== undefined && performance.now() < known.untilMs) {
      known.access.requireValid();
      return known.access;
    }
    return this.#enter(what, { headers: { authorization, host, origin }, address });
  }

  async #enter(what: string, call: EnterCall): Promise<Access> {
    const untilMs = performance.now() + leaseMs;
    const lease = await this.#ask(call);
    const known: Known = {
      access: new Access(
        lease.who,
        lease.role,
        lease.collections,
        () => this.#requireValid(known, lease),
        lease.weight,
        lease.expiresAtMs,
        lease.filter,
      ),
      untilMs,
      isForgotten: false,
    };
    this.#onAccount(known.access.payer, lease.account);
    this.#known.delete(what);
    this.#known.set(what, known);
    if (this.#known.size > knownMax) this.#known.delete(this.#known.keys().next().value as string);
    return known.access;
  }

  /** A key was revoked. */
  forget(who: string): void {
    for (const [what, known] of this.#known) {
      if (known.access.who !== who) continue;
      known.isForgotten = true;
      this.#known.delete(what);
    }
  }

  #requireValid({ isForgotten }: Known, { expiresAtMs }: Lease): void {
    if (isForgotten) throw revokedError();
    requireUnexpired({ expiresAtMs }, this.#clock());
  }

  /** Sessions are created by the owner. */
  logIn(): Promise<never> {
    throw new Error("a serving thread was asked for a session");
  }

  async close(): Promise<void> {}
}
