// How many failed attempts may an address make?
//
// An address that has failed `max` times within a window is rejected until the window ends, and its keys are not compared with anything
// that could be guessed: a configured admin key may be a short word. Secrets that this server generated (API keys, session tokens, a
// generated admin key) are 256 random bits; they are checked first and pass even from a limited address. So a neighbour behind the same
// proxy, or a broken client on the same machine, locks nobody out; at worst a configured admin key has to wait for the end of the window.
//
// Every address counts, including those of this machine. An IPv6 address counts by its first 64 bits, because one user usually owns the
// whole /64. Memory is bounded: beyond `addressesMax` the oldest window is forgotten.

import { isIPv4, isIPv6 } from "node:net";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";

type Window = { failures: number; endsMs: number };

export class FailedAttempts {
  /** Ordered by the start of the window. */
  readonly #windows = new Map<string, Window>();
  readonly #max: number;
  readonly #clock: () => number;
  readonly #addressesMax: number;

  constructor(max: number, clock: () => number, addressesMax: number = limits.authAddressesMax) {
    this.#max = max;
    this.#clock = clock;
    this.#addressesMax = addressesMax;
  }

  /** Number of remembered addresses. */
  get size(): number {
    return this.#windows.size;
  }

  /** @throws rate_limited with the seconds to wait, when the address has failed too often */
  refuseGuesser(address: string): void {
    if (this.#windows.size === 0) return;
    const window = this.#window(networkOf(address));
    if (window === undefined || window.failures < this.#max) return;
    const seconds = Math.max(1, Math.ceil((window.endsMs - this.#clock()) / 1000));
    throw new QuiverError(
      "rate_limited",
      `Too many failed attempts to authenticate came from this address. Wait for ${seconds} seconds; ` +
        "API keys and sessions continue to work.",
      { retry_after_seconds: seconds },
    );
  }

  failed(address: string): void {
    const network = networkOf(address);
    const window = this.#window(network);
    if (window !== undefined) {
      window.failures++;
      return;
    }
    if (this.#windows.size >= this.#addressesMax) {
      const [first] = this.#windows.keys();
      this.#windows.delete(first);
    }
    this.#windows.set(network, { failures: 1, endsMs: this.#clock() + limits.authFailureWindowMs });
  }

  /** The window of a network, if it has not ended; a window that starts in the future means that the clock was set back. */
  #window(network: string): Window | undefined {
    const window = this.#windows.get(network);
    if (window === undefined) return undefined;
    const leftMs = window.endsMs - this.#clock();
    if (leftMs > 0 && leftMs <= limits.authFailureWindowMs) return window;
    this.#windows.delete(network);
    return undefined;
  }
}

/** An IPv4 address itself, also in IPv6 notation; otherwise the first 64 bits of an IPv6 address. */
export function networkOf(address: string): string {
  const bare = address.replace(/%.*$/s, "").toLowerCase();
  const mapped = /^::ffff:([\d.]+)$/.exec(bare)?.[1];
  if (mapped !== undefined && isIPv4(mapped)) return mapped;
  if (!isIPv6(bare)) return bare;
  const [head, tail] = bare.split("::");
  const before = head === "" ? [] : head.split(":");
  // Only the groups after `::` that fall into the first four groups matter.
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const groups = after.length + (after.at(-1)?.includes(".") ? 1 : 0);
  const zeros = tail === undefined ? 0 : 8 - before.length - groups;
  const all = [...before, ...Array<string>(Math.max(0, zeros)).fill("0"), ...after];
  return `${all
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":")}::/64`;
}
