import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { UsageError } from "../exit-codes.ts";
import { findConfigFile, resolveSettings, type SettingInputs, settings } from "./settings.ts";

const decide = (inputs: Partial<SettingInputs>) => resolveSettings({ flags: {}, env: {}, ...inputs });
const file = (content: unknown) => ({ path: "quiver.config.json", content: JSON.stringify(content) });
const messageOf = (inputs: Partial<SettingInputs>): string => {
  try {
    decide(inputs);
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return (error as Error).message;
  }
  throw new Error("nothing was thrown");
};

describe("the source of a setting", () => {
  const inputs = { flags: { port: "1" }, env: { QUIVER_PORT: "2" }, file: file({ port: 3 }) };

  it("is the flag before the variable before the file before the default", () => {
    expect(decide(inputs).config.port).toBe(1);
    expect(decide({ ...inputs, flags: {} }).config.port).toBe(2);
    expect(decide({ ...inputs, flags: {}, env: {} }).config.port).toBe(3);
    expect(decide({}).config.port).toBeUndefined();
    expect(decide({}).config.dataDir).toBe(resolve("quiver-data"));
  });

  it("is neither an empty variable nor a null key", () => {
    expect(
      decide({ env: { QUIVER_PORT: "" }, file: file({ port: null, host: "::1" }) }).config,
    ).toMatchObject({
      host: "::1",
    });
  });

  it("is remembered for messages", () => {
    const { sources } = decide({
      flags: { host: "h" },
      env: { QUIVER_PORT: "2" },
      file: file({ noAuth: true }),
    });
    expect([...sources]).toEqual([
      ["port", "QUIVER_PORT"],
      ["host", "--host"],
      ["noAuth", "quiver.config.json: noAuth"],
    ]);
  });
});

it("takes every setting from each of the three sources", () => {
  const samples: Record<string, [text: string, value: unknown]> = {
    port: ["9000", 9000],
    host: ["0.0.0.0", "0.0.0.0"],
    dataDir: ["/data", "/data"],
    adminKey: ["k", "k"],
    noAuth: ["true", true],
    authFailuresMax: ["10", 10],
    tlsCert: ["/tls/cert.pem", "/tls/cert.pem"],
    tlsKey: ["/tls/key.pem", "/tls/key.pem"],
    corsOrigin: ["https://a.example", ["https://a.example"]],
    bodyLimit: ["8MiB", 8 * 1024 ** 2],
    bodiesInMemory: ["1GiB", 1024 ** 3],
    answersInMemory: ["1GiB", 1024 ** 3],
    force: ["true", true],
    lockWait: ["3s", 3_000],
    requestDeadline: ["20s", 20_000],
    queueWait: ["3s", 3_000],
    requestDeadlineMax: ["2m", 120_000],
    requestWorkMax: ["10s", 10_000],
    keyRequestsMax: ["100", 100],
    answerStall: ["40s", 40_000],
    requestTimeout: ["10s", 10_000],
    headersTimeout: ["5s", 5_000],
    keepAliveTimeout: ["1m", 60_000],
    connectionsMax: ["10", 10],
    closeTimeout: ["1s", 1_000],
    servingThreads: ["3", 3],
    noConsole: ["true", false],
    logLevel: ["warn", "warn"],
    memoryBudget: ["2GiB", 2 * 1024 ** 3],
    transactionIdle: ["30m", 1_800_000],
    versionsKept: ["50", 50],
    cluster: ["nats://a:4222", ["nats://a:4222"]],
    node: ["n1", "n1"],
    advertise: ["http://a:8443", "http://a:8443"],
    clusterCreds: ["/nats/creds", "/nats/creds"],
    clusterCa: ["/nats/ca.pem", "/nats/ca.pem"],
    clusterMonitor: ["http://a:8222", ["http://a:8222"]],
    clusterLogs: ["4", 4],
    clusterShards: ["3", 3],
    clusterReplicas: ["2", 2],
    logKeep: ["2h", 7_200_000],
    replaceAfter: ["20m", 1_200_000],
    allowUnverifiedSync: ["true", true],
  };
  expect(Object.keys(samples).sort()).toEqual(settings.map(({ key }) => key).sort());
  for (const { key, env, option } of settings) {
    const [text, value] = samples[key];
    expect(decide({ flags: { [key]: text } }).config[option]).toEqual(value);
    expect(decide({ env: { [env]: text } }).config[option]).toEqual(value);
    expect(decide({ file: file({ [key]: text }) }).config[option]).toEqual(value);
  }
});

it("takes lists as repeated flags, with commas in a variable, and as an array in the file", () => {
  const origins = ["https://a.example", "https://b.example"];
  expect(decide({ flags: { corsOrigin: origins } }).config.corsOrigins).toEqual(origins);
  expect(decide({ env: { QUIVER_CORS_ORIGIN: origins.join(", ") } }).config.corsOrigins).toEqual(origins);
  expect(decide({ file: file({ corsOrigin: origins }) }).config.corsOrigins).toEqual(origins);
});

describe("an error names its source", () => {
  it.each([
    [{ flags: { port: "abc" } }, /^--port "abc": expected a whole number of at least 0 and at most 65535/],
    [{ env: { QUIVER_BODY_LIMIT: "big" } }, /^QUIVER_BODY_LIMIT "big": expected a size such as 64MiB/],
    [
      { file: file({ transactionIdle: "soon" }) },
      /^quiver\.config\.json: transactionIdle "soon": expected a duration/,
    ],
    [{ file: file({ logLevel: "loud" }) }, /expected one of trace, debug, info/],
    [{ file: file({ port: [1] }) }, /^quiver\.config\.json: port: is an array, expected a single value/],
    [{ file: file({ host: { a: 1 } }) }, /host: is an object/],
    [{ file: file({ prot: 1 }) }, /unknown key "prot"; did you mean port\?/],
    [{ file: file({ memoryBudgetBytes: 1 }) }, /did you mean memoryBudget\?/],
    [{ file: file([1]) }, /expected a JSON object/],
    [{ file: { path: "other.json", content: "{" } }, /^other\.json: is not JSON/],
  ])("%#", (inputs, message) => expect(messageOf(inputs as SettingInputs)).toMatch(message));
});

describe("the configuration file", () => {
  it("is the named one, which must then exist", () => {
    const folder = mkdtempSync(join(tmpdir(), "quiver-settings-"));
    try {
      const path = join(folder, "my.json");
      writeFileSync(path, "{}");
      expect(findConfigFile({ config: path }, {})).toEqual({ path, content: "{}" });
      expect(findConfigFile({}, { QUIVER_CONFIG: path })).toEqual({ path, content: "{}" });
      expect(() => findConfigFile({ config: join(folder, "no.json") }, {})).toThrow(
        /^--config .*cannot read/,
      );
      expect(() => findConfigFile({}, { QUIVER_CONFIG: folder })).toThrow(/^QUIVER_CONFIG /);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("may be missing if it is not named", () => {
    expect(findConfigFile({}, {})).toBeUndefined();
  });
});
