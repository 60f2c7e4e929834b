// Unit tests of the configuration.

import { describe, expect, test } from "vitest";
import { ConfigError, completeConfig, isLoopback, type ServerConfig } from "../src/config.ts";

const optionOf = (config: Partial<ServerConfig>) => {
  try {
    completeConfig({ dataDir: "data", ...config });
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as ConfigError).option;
  }
  return undefined;
};

describe("configuration", () => {
  test("[H1] a server listens on 127.0.0.1:8443 unless told otherwise", () => {
    expect(completeConfig({ dataDir: "data" })).toMatchObject({
      host: "127.0.0.1",
      port: 8443,
      bodyLimitBytes: 64 * 1024 * 1024,
      noAuth: false,
      corsOrigins: [],
    });
    expect(completeConfig({ dataDir: "data", port: undefined }).port).toBe(8443);
  });

  test("[A7] requests without a key are served on a loopback address only", () => {
    for (const host of ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost", undefined]) {
      expect([host, optionOf({ host, noAuth: true })]).toEqual([host, undefined]);
    }
    for (const host of [
      "0.0.0.0",
      "::",
      "192.168.1.5",
      "example.org",
      "127.example.org",
      "localhost.example.org",
    ]) {
      expect([host, optionOf({ host, noAuth: true })]).toEqual([host, "noAuth"]);
      expect(optionOf({ host, noAuth: false })).toBeUndefined();
    }
    expect(isLoopback("LOCALHOST")).toBe(true);
  });

  test("invalid values are rejected with the name of the option", () => {
    expect(optionOf({ dataDir: "" })).toBe("dataDir");
    for (const port of [-1, 65_536, 1.5, Number.NaN]) expect(optionOf({ port })).toBe("port");
    expect(optionOf({ bodyLimitBytes: 0 })).toBe("bodyLimitBytes");
    expect(optionOf({ requestTimeoutMs: 2 ** 31 })).toBe("requestTimeoutMs");
    expect(optionOf({ logLevel: "loud" as never })).toBe("logLevel");
    for (const origin of ["example.org", "https://example.org/", "https://example.org/path", ""]) {
      expect([origin, optionOf({ corsOrigins: [origin] })]).toEqual([origin, "corsOrigins"]);
    }
    expect(optionOf({ corsOrigins: ["https://example.org", "http://localhost:5173", "*"] })).toBeUndefined();
  });

  test("[A9] a key that cannot be sent in a header is rejected without repeating it", () => {
    for (const adminKey of ["", "two words", "naïve", "line\nbreak", "k".repeat(1025)]) {
      expect(optionOf({ adminKey })).toBe("adminKey");
    }
    expect(() => completeConfig({ dataDir: "d", adminKey: "se cret" })).toThrow(/^(?!.*se cret)/);
  });
});
