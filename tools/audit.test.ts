import { expect, test } from "vitest";
import { readReport } from "./audit.ts";

const metadata = { vulnerabilities: {}, dependencies: { total: 2 } };

test("a report says which packages have known weaknesses", () => {
  expect(readReport(JSON.stringify({ vulnerabilities: {}, metadata }))).toEqual({ found: [], packages: 2 });
  const vulnerabilities = { pad: { severity: "high", range: "<1.2.3", fixAvailable: true } };
  expect(readReport(JSON.stringify({ vulnerabilities, metadata }))).toEqual({
    found: ["pad <1.2.3: high"],
    packages: 2,
  });
});

test("an invalid report does not count as clean: the check is skipped, with the reason", () => {
  const refused = readReport('{"message":"405 Method Not Allowed","error":{"summary":"","detail":""}}');
  expect(refused).toEqual({ skipped: "the registry cannot be asked: 405 Method Not Allowed" });
  expect(readReport("")).toEqual({ skipped: "npm audit gave no report: nothing" });
});
