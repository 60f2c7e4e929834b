// How often may an address guess?
//
// An address that has failed `max` times within a window is refused until the window ends, and what it sends is not
// compared with anything that could be guessed: an admin key that somebody chose may be a short word. What this server
// has made (API keys, the tokens of sessions, a generated admin key) is 256 random bits; it is looked at first, and
// passes from an address that is limited. So a neighbour behind the same proxy, or a broken client on the same machine,
// keeps nobody from working; at worst a chosen admin key has to wait for the end of the window.
//
// Every address counts, those of this machine too. An IPv6 address counts by its first 64 bits, for whoever has one of
// them usually has them all. Memory is bounded: beyond `addressesMax` the window that began first is forgotten.

import { isIPv4, isIPv6 } from "node:net";
import { QuiverError } from "@quiver/protocol/errors";
import { limits } from "@quiver/protocol/limits";

type Window = { failures: number; endsMs: number };

export class FailedAttempts {
  /** In the order in which the windows began. */
  readonly #windows = new Map<string, Window>();
  readonly #max: number;
  readonly #clock: () => number;
  readonly #addressesMax: number;

  constructor(max: number, clock: () => number, addressesMax: number = limits.authAddressesMax) {
    this.#max = max;
    this.#clock = clock;
    this.#addressesMax = addressesMax;
  }

  /** Addresses that are remembered. */
  get size(): number {
    return this.#windows.size;
  }

  /** @throws rate_limited with the seconds to wait, when the address has failed too often */
  refuseGuesser(address: string): void {
    const window = this.#window(networkOf(address));
    if (window === undefined || window.failures < this.#max) return;
    const seconds = Math.max(1, Math.ceil((window.endsMs - this.#clock()) / 1000));
    throw new QuiverError(
      "rate_limited",
      `Too many failed attempts to authenticate came from this address. Wait for ${seconds} seconds; ` +
        "API keys and sessions work meanwhile.",
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

  /** The window of a network, where it has not ended; one that seems to begin later is of a clock that was set back. */
  #window(network: string): Window | undefined {
    const window = this.#windows.get(network);
    if (window === undefined) return undefined;
    const leftMs = window.endsMs - this.#clock();
    if (leftMs > 0 && leftMs <= limits.authFailureWindowMs) return window;
    this.#windows.delete(network);
    return undefined;
  }
}

/** An IPv4 address itself, also where it is written in IPv6; the first 64 bits of another IPv6 address. */
export function networkOf(address: string): string {
  const bare = address.replace(/%.*$/s, "").toLowerCase();
  const mapped = /^::ffff:([\d.]+)$/.exec(bare)?.[1];
  if (mapped !== undefined && isIPv4(mapped)) return mapped;
  if (!isIPv6(bare)) return bare;
  const [head, tail] = bare.split("::");
  const before = head === "" ? [] : head.split(":");
  // Of what stands behind the `::`, only as much matters as reaches into the first four groups.
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const groups = after.length + (after.at(-1)?.includes(".") ? 1 : 0);
  const zeros = tail === undefined ? 0 : 8 - before.length - groups;
  const all = [...before, ...Array<string>(Math.max(0, zeros)).fill("0"), ...after];
  return `${all
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":")}::/64`;
}
