// Do the packages that we use have known weaknesses?
//
//   npm run test:audit
//
// `npm audit` asks the registry about the packages of package-lock.json. If the registry cannot be queried (no network, or a mirror without
// this service), the run is skipped with a message and exit code 0.

import { spawnSync } from "node:child_process";

type Report = {
  error?: { code?: string; summary?: string };
  message?: string;
  metadata?: { vulnerabilities: Record<string, number>; dependencies: { total: number } };
  vulnerabilities?: Record<string, { severity: string; range: string; fixAvailable: unknown }>;
};

/** The result of `npm audit --json`: known weaknesses as lines, or the reason why there is none. */
export function readReport(text: string): { found: string[]; packages: number } | { skipped: string } {
  let report: Report;
  try {
    report = JSON.parse(text);
  } catch {
    return { skipped: `npm audit gave no report: ${text.slice(0, 200) || "nothing"}` };
  }
  if (report.metadata === undefined) {
    return {
      skipped: `the registry cannot be asked: ${report.error?.summary || report.message || "no reason given"}`,
    };
  }
  const found = Object.entries(report.vulnerabilities ?? {}).map(
    ([name, { severity, range }]) => `${name} ${range}: ${severity}`,
  );
  return { found, packages: report.metadata.dependencies.total };
}

if (import.meta.main) {
  const { stdout } = spawnSync("npm", ["audit", "--json"], { encoding: "utf8" });
  const result = readReport(stdout);
  if ("skipped" in result) process.stdout.write(`skipped: ${result.skipped}\n`);
  else {
    for (const line of result.found) process.stdout.write(`${line}\n`);
    process.stdout.write(`${result.packages} packages, ${result.found.length} with known weaknesses\n`);
    if (result.found.length > 0) process.exitCode = 1;
  }
}
