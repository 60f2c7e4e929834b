// Is everything in order? This is `npm test`, `npm run check` and `npm run test:full`. CI runs all steps in a clone without neighbours
// (.ci/run).
//
//   npm test                               the steps of a minute or two, in the order of the table below
//   npm run test:full                      all steps
//   npm run check -- --only floors,links   some of them
//   npm run check -- --rest                those of test:full that npm test does not have
//
// There are two groups of steps: the first reads the sources, the second runs them. All steps of a group run, so that one call shows all
// its failures; after a group with a failure the check stops. The steps that use the cores most follow each other; the others run beside.

import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { endOf, startNode } from "./children.ts";
import { checkExamples } from "./doc-examples.ts";
import { checkFloors } from "./floors.ts";
import { checkHosts } from "./hosts.ts";
import { checkLinks } from "./links.ts";

/** The result of a step: its failures as text, and its counts for the summary line. */
type Outcome = {
  errors: readonly string[];
  notes?: readonly string[];
  counted?: string;
  /** The last line of the output: the numbers of passed and failed tests. */
  closing?: string;
};

type Step = {
  name: string;
  what: string;
  run: () => Promise<Outcome>;
  /** Whether only the full check has it, or only a call that names it, because it is a part of another step. Otherwise every check. */
  when?: "full" | "named";
  /** Whether it runs beside the other steps of its group, because it leaves them most of the cores. */
  isBeside?: boolean;
};

const root = resolve(import.meta.dirname, "..");
const testReport = join(root, ".cache", "vitest.json");

// Each file of tests, each server and each thread of it loads some hundred modules; what V8 made of them once is used by all. That saves a
// tenth of the CPU time of tests that start servers.
process.env.NODE_COMPILE_CACHE ??= join(root, ".cache", "compiled");

/** Files, exports and dependencies that nothing uses; knip.json has the entries and the exceptions. */
const unusedCode = ["--no-progress", "--no-config-hints"];

const groups: readonly (readonly Step[])[] = [
  [
    {
      name: "format",
      what: "format and lint (biome)",
      isBeside: true,
      run: () => silent("@biomejs/biome/bin/biome", ["check"]),
    },
    {
      name: "types",
      what: "types (tsc)",
      run: async () => {
        // The console and a page are compiled with the libraries of a browser; tests have both, through what drives the browser.
        const projects = [".", "packages/console", "packages/console/test", "examples/browser-page"];
        // What has not changed since the last check is not checked again.
        const outcomes = await Promise.all(
          projects.map((project) => {
            const kept = join(root, ".cache", "types", project, "tsc.json");
            return silent("typescript/bin/tsc", ["-p", project, "--incremental", "--tsBuildInfoFile", kept]);
          }),
        );
        return { errors: outcomes.flatMap(({ errors }) => errors) };
      },
    },
    {
      name: "floors",
      what: "imports go downwards; Node.js only where it may be; nothing unused",
      isBeside: true,
      run: async () => {
        const [hosts, unused] = await Promise.all([checkHosts(root), silent("knip/bin/knip.js", unusedCode)]);
        return { errors: [...checkFloors(root), ...hosts, ...unused.errors] };
      },
    },
    {
      name: "links",
      what: "links and rules of the documents",
      isBeside: true,
      run: async () => ({ errors: checkLinks(root) }),
    },
  ],
  [
    { name: "examples", what: "examples of the documents", run: examples },
    { name: "tests", what: "tests (vitest)", run: () => tests(["--project=together", "--project=tests"]) },
    // It has ended long before the step of the packages, whose compiled declarations it shares.
    { name: "site", what: "the site of the documents", when: "full", isBeside: true, run: site },
    {
      name: "nodes",
      what: "tests of a server, over three nodes of a cluster, and over three shards",
      when: "full",
      run: nodes,
    },
    {
      name: "long",
      what: "long tests: programs, kills, campaigns, browsers",
      when: "full",
      // Much of their time is waiting: for disks, clocks, programs and browsers.
      run: () => tests(["--project=long"], 3),
    },
    {
      name: "threads",
      what: "tests of a server, with serving threads",
      when: "full",
      run: () => tests(["--project=with serving threads"], 3),
    },
    { name: "packages", what: "the published packages in an empty project", when: "full", run: packages },
    {
      name: "shared",
      what: "those of the long tests that need the data sets of ../shared",
      when: "named",
      run: () => tests(["--project=long", ".shared.test."]),
    },
  ],
];

async function examples(): Promise<Outcome> {
  const { errors, notes, compiled, run } = await checkExamples(root);
  return { errors, notes, counted: `${compiled} examples (${run} run)` };
}

/** In a process of its own, because what it needs is installed by it. */
async function packages(): Promise<Outcome> {
  const args = ["tools/pack/main.ts", "--check"];
  const { code, output } = await endOf(startNode(args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] }));
  if (code !== 0) return { errors: [output.trimEnd()] };
  return { errors: [], notes: output.split("\n").filter((line) => line.startsWith("not ")) };
}

/** In a process of its own, too. */
async function site(): Promise<Outcome> {
  const args = ["tools/site/main.ts", "--check"];
  const { code, output } = await endOf(startNode(args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] }));
  return { errors: code === 0 ? [] : [output.trimEnd()] };
}

/** What is there afterwards is used by the long tests, too. */
async function nodes(): Promise<Outcome> {
  const fetching = startNode(["tools/nats.ts"], { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  const { code, output } = await endOf(fetching);
  const projects = ["--project=over three nodes", "--project=over three shards"];
  if (code === 0) return tests(projects);
  const why = `not tested: clusters; ${output.trim()}`;
  return process.env.QUIVER_REQUIRE_NATS === undefined ? { errors: [], notes: [why] } : { errors: [why] };
}

/**
 * Runs the tests that arguments of vitest select; vitest prints its own progress.
 * @param workers files at a time. A flag of the command line would not count: the projects have what the configuration says
 */
async function tests(selection: readonly string[], workers = 2): Promise<Outcome> {
  mkdirSync(join(root, ".cache"), { recursive: true });
  rmSync(testReport, { force: true });
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${testReport}`];
  const args = [binary("vitest/vitest.mjs"), "run", ...reporters, ...selection];
  const env = { ...process.env, VITEST_MAX_WORKERS: String(workers) };
  const { code, signal } = await endOf(startNode(args, { cwd: root, stdio: "inherit", env }));
  if (code !== 0) {
    const ending = `vitest ended with ${signal ?? `exit code ${code}`}; its report is above`;
    return { errors: [ending, ...failedTests()] };
  }
  const { numPassedTests, numPendingTests, testResults } = JSON.parse(readFileSync(testReport, "utf8"));
  const skipped = numPendingTests > 0 ? `, ${numPendingTests} skipped` : "";
  return {
    errors: [],
    counted: `${numPassedTests} tests in ${testResults.length} files${skipped}`,
    closing: `tests: ${numPassedTests} passed, 0 failed${skipped}`,
  };
}

/** What failed in the last run of the tests, once more in short: the last lines of a log are what most people see first. */
function failedTests(): string[] {
  if (!existsSync(testReport)) return ["there is no report of the tests"];
  const { testResults } = JSON.parse(readFileSync(testReport, "utf8")) as Report;
  const failed = testResults
    .filter(({ status }) => status === "failed")
    .flatMap(({ name, message, assertionResults }) => {
      const file = relative(root, name);
      const failed = assertionResults.filter(({ status }) => status === "failed");
      if (failed.length === 0) return [`FAILED ${file}: ${beginning(message)}`];
      return failed.map(
        ({ fullName, failureMessages }) =>
          `FAILED ${file} > ${fullName}: ${beginning(failureMessages.join("\n"))}\n       alone: node tools/launch.mjs exec vitest run ${file}`,
      );
    });
  return failed.length > 0 ? failed : ["no test failed: an error outside of the tests is reported above"];
}

/** The part of vitest's JSON report that is read here. */
type Report = {
  testResults: {
    name: string;
    status: string;
    message: string;
    assertionResults: { status: string; fullName: string; failureMessages: string[] }[];
  }[];
};

const beginning = (text: string): string => text.split("\n").slice(0, 8).join("\n").slice(0, 1_500);

const binary = (path: string): string => join(root, "node_modules", path);

/** Runs a program of node_modules and shows its output only if it fails. */
async function silent(program: string, args: readonly string[]): Promise<Outcome> {
  const child = startNode([binary(program), ...args], { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  const { code, signal, output } = await endOf(child);
  if (code === 0) return { errors: [] };
  return {
    errors: [output.trim() === "" ? `ended with ${signal ?? `exit code ${code}`}` : output.trimEnd()],
  };
}

async function runStep(step: Step): Promise<Outcome> {
  try {
    return await step.run();
  } catch (error) {
    return { errors: [error instanceof Error ? (error.stack ?? error.message) : String(error)] };
  }
}

const seconds = (sinceMs: number): string => `${((performance.now() - sinceMs) / 1000).toFixed(1)} s`;

/** Runs one step and prints its line; true if it passed. */
async function report(step: Step, counts: string[], closings: string[]): Promise<boolean> {
  const startMs = performance.now();
  const { errors, notes = [], counted, closing } = await runStep(step);
  const failed = errors.length > 0;
  const verdict = failed ? "FAILED" : "ok";
  console.log(`${verdict.padEnd(7)}${step.name.padEnd(10)}${step.what}, ${seconds(startMs)}`);
  for (const note of notes) console.log(`       ${note}`);
  for (const error of errors) console.log(error);
  if (!failed && counted !== undefined) counts.push(counted);
  if (!failed && closing !== undefined) closings.push(closing);
  return !failed;
}

async function check(isWanted: (step: Step) => boolean): Promise<boolean> {
  const startMs = performance.now();
  const counts: string[] = [];
  const closings: string[] = [];
  const failed: string[] = [];
  let stepsRun = 0;
  for (const group of groups) {
    const beside: Promise<void>[] = [];
    for (const step of group) {
      if (!isWanted(step)) continue;
      stepsRun++;
      const running = report(step, counts, closings).then((passed) => {
        if (!passed) failed.push(step.name);
      });
      if (step.isBeside) beside.push(running);
      else await running;
    }
    await Promise.all(beside);
    if (failed.length > 0) break;
  }
  const totals = [`${stepsRun} steps`, ...counts, `${failed.length} failed`, seconds(startMs)].join(", ");
  const alone = `; FAILED: ${failed.join(", ")}; alone: npm run check -- --only ${failed.join(",")}`;
  console.log(`check: ${totals}${failed.length > 0 ? alone : ""}`);
  for (const closing of closings) console.log(closing);
  return failed.length === 0;
}

/** The steps that --only names, all with --full, those that it adds with --rest, or those of every check. */
function selection(): (step: Step) => boolean {
  const { only, full, rest } = parseArgs({
    options: { only: { type: "string" }, full: { type: "boolean" }, rest: { type: "boolean" } },
  }).values;
  if (rest) return ({ when }) => when === "full";
  if (only === undefined) return ({ when }) => when === undefined || (full === true && when === "full");
  const known = groups.flat().map(({ name }) => name);
  const wanted = only.split(",").map((name) => name.trim());
  const unknown = wanted.filter((name) => !known.includes(name));
  if (unknown.length === 0) return ({ name }) => wanted.includes(name);
  console.error(`check: no step is called ${unknown.join(", ")}; there are ${known.join(", ")}`);
  process.exit(2);
}

process.exitCode = (await check(selection())) ? 0 : 1;
