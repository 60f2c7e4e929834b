import { isQuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { describe, expect, test } from "vitest";
import { FailedAttempts, networkOf } from "./failed-attempts.ts";

const windowMs = limits.authFailureWindowMs;

function limiter(max: number, addressesMax?: number) {
  const clock = { now: 1_000_000 };
  const attempts = new FailedAttempts(max, () => clock.now, addressesMax);
  const isRefused = (address: string) => {
    try {
      attempts.refuseGuesser(address);
      return false;
    } catch (error) {
      if (!isQuiverError(error, "rate_limited")) throw error;
      return true;
    }
  };
  return { clock, attempts, isRefused };
}

describe("the limit on failed attempts", () => {
  test("[A13] counts each address separately, and starts again when the window has ended", () => {
    const { clock, attempts, isRefused } = limiter(3);
    for (let i = 0; i < 3; i++) {
      expect(isRefused("10.0.0.1")).toBe(false);
      attempts.failed("10.0.0.1");
    }
    expect(isRefused("10.0.0.1")).toBe(true);
    expect(isRefused("10.0.0.2")).toBe(false);
    clock.now += windowMs - 1;
    expect(isRefused("10.0.0.1")).toBe(true);
    clock.now += 1;
    expect(isRefused("10.0.0.1")).toBe(false);
    attempts.failed("10.0.0.1");
    expect(isRefused("10.0.0.1")).toBe(false);
  });

  test("[A13] does not reject for hours when the clock is set back", () => {
    const { clock, attempts, isRefused } = limiter(1);
    attempts.failed("10.0.0.1");
    clock.now -= 3_600_000;
    expect(isRefused("10.0.0.1")).toBe(false);
  });

  test("[A13] remembers a bounded number of addresses, the latest ones", () => {
    const { attempts, isRefused } = limiter(1, 100);
    for (let i = 0; i < 10_000; i++) attempts.failed(`10.0.${i >> 8}.${i & 255}`);
    expect(attempts.size).toBe(100);
    expect(isRefused("10.0.0.0")).toBe(false);
    expect(isRefused(`10.0.${9_999 >> 8}.${9_999 & 255}`)).toBe(true);
  });

  test.each([
    ["127.0.0.1", "127.0.0.1"],
    ["::ffff:127.0.0.1", "127.0.0.1"],
    ["::1", "0:0:0:0::/64"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:DB8:1:2::9", "2001:db8:1:2::/64"],
    ["2001:db8:1:3::9", "2001:db8:1:3::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["2001:0db8:0000:0000::1", "2001:db8:0:0::/64"],
    ["::2001:db8:1:2:3", "0:0:0:2001::/64"],
    ["64:ff9b::192.0.2.1", "64:ff9b:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ])("[A13] %s counts as %s", (address, network) => expect(networkOf(address)).toBe(network));
});
