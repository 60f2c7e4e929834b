// Does the dense index have the required recall on data that it was not tuned for?
//
// Every kind of odd data (tests/odd-data), with every metric, type of codes and order of arrival (odd-data/modes), is compared with exact
// scores (odd-data/truth). The requirements are in odd-data/marks. hnswlib runs the same cases, and both results are reported.
//
//   npm run campaign odd-data -- --short                     auto and f32, one mode for each case, drawn by the seed
//   npm run campaign odd-data -- --only one-hot,bits --metric cosine --type auto --mode in-place,engine
//   npm run campaign odd-data -- --settings all --figures    everything, and the tables of docs/reliability.md: hours
//   npm run campaign odd-data -- --mode drawn --figures      the same with one mode for each case
//
// Each case depends only on the seed and on its names, so naming it repeats it.

import { writeFileSync } from "node:fs";
import { hnswDataTypes } from "@quiverdb/engine/index/dense/code-types";
import { randomNumbers } from "@quiverdb/kernels/random";
import { type MetricName, metricNames } from "@quiverdb/protocol/shapes/index-definition";
import { all, type Generated, generate, type OddData } from "../odd-data/odd-data.ts";
import { Random } from "../odd-data/random.ts";
import { command, type Say, say } from "./campaign.ts";
import {
  emptyQueriesMax,
  hitsOfChance,
  itselfFirstMin,
  judgedTypes,
  recallMin,
  type Settings,
  settings,
  topK,
} from "./odd-data/marks.ts";
import { Crews, type Mode, modes, play } from "./odd-data/modes.ts";
import { writeFigures } from "./odd-data/report.ts";
import { openRival, rivalRefusal } from "./odd-data/rival.ts";
import type { DataType } from "./odd-data/subject.ts";
import { type Counted, count } from "./odd-data/truth.ts";

/** A type of codes, or `u8` with a range that contains no value. */
export type Coding = DataType | "u8-elsewhere";

export type CampaignOptions = {
  readonly seed: number;
  readonly kinds: readonly OddData[];
  readonly metrics: readonly MetricName[];
  readonly types: readonly Coding[];
  /** Default: one for each case, drawn by the seed. */
  readonly modes?: readonly Mode[] | undefined;
  readonly settings: readonly Settings[];
  /** Factor of the usual number of rows. */
  readonly scale: number;
  readonly queries: number;
  /** Maximum number of stored vectors that are searched for themselves. */
  readonly itself: number;
  readonly withRival: boolean;
  readonly say: Say;
};

/** The result of one case. */
export type Case = {
  readonly data: string;
  readonly metric: MetricName;
  /** The requested type; `hnswlib` for the rival. */
  readonly type: Coding | "hnswlib";
  /** The type that was used. */
  readonly codes: string;
  readonly mode: string;
  readonly settings: string;
  /** Undefined if the case failed with an error. */
  readonly counted?: Counted;
  /** Missed requirements; none for types without requirements. */
  readonly faults: readonly string[];
};

/** A hash of all of the texts. */
function seedOf(...parts: readonly (string | number)[]): number {
  let hash = 0x811c9dc5;
  for (const char of parts.join("/")) hash = Math.imul(hash ^ char.charCodeAt(0), 0x01000193);
  return Math.floor(randomNumbers(hash)() * 2 ** 32);
}

/** Runs all cases, one after the other. */
export async function oddDataCampaign(options: CampaignOptions): Promise<Case[]> {
  const crews = new Crews();
  try {
    return await allCases(options, crews);
  } finally {
    await crews.close();
  }
}

async function allCases(options: CampaignOptions, crews: Crews): Promise<Case[]> {
  const cases: Case[] = [];
  for (const data of options.kinds) {
    const reason = data.absent?.();
    if (reason !== undefined) {
      options.say(`${data.name} is left out: ${reason}`);
      continue;
    }
    const made = generate(data, seedOf(options.seed, data.name), options.scale, options.queries);
    for (const metric of options.metrics) {
      if (data.metrics !== undefined && !data.metrics.includes(metric)) continue;
      for (const each of await casesOf(options, crews, data.name, made, metric)) {
        cases.push(each);
        options.say(lineOf(each));
      }
    }
  }
  return cases;
}

async function casesOf(
  options: CampaignOptions,
  crews: Crews,
  data: string,
  made: Generated,
  metric: MetricName,
): Promise<Case[]> {
  const cases: Case[] = [];
  const step = Math.max(1, Math.ceil(made.rows.length / options.itself));
  for (const setting of options.settings) {
    let rival: Counted | undefined;
    if (options.withRival) {
      rival = await count(openRival(metric, made.rows, setting), made.queries, step);
      const named = { data, metric, settings: setting.name };
      cases.push({ ...named, type: "hnswlib", codes: "f32", mode: "in-place", counted: rival, faults: [] });
    }
    for (const type of options.types) {
      for (const mode of options.modes ?? [pickMode(options.seed, data, metric, type, made.rows.length)])
        cases.push(await runCase(options, crews, { data, metric, type, mode, setting, made, rival, step }));
    }
  }
  return cases;
}

/** One of the modes. For types other than auto the engine has no graph before 1,000 records, so there is nothing to test. */
function pickMode(seed: number, data: string, metric: MetricName, type: Coding, rows: number): Mode {
  const fit = modes.filter(({ isEngine }) => !isEngine || type === "auto" || rows >= 1_500);
  const lots = fit.flatMap((mode) => new Array<Mode>(mode.weight).fill(mode));
  return lots[seedOf(seed, data, metric, type) % lots.length];
}

type CaseOf = {
  readonly data: string;
  readonly metric: MetricName;
  readonly type: Coding;
  readonly mode: Mode;
  readonly setting: Settings;
  readonly made: Generated;
  readonly rival: Counted | undefined;
  readonly step: number;
};

async function runCase(
  { seed }: CampaignOptions,
  crews: Crews,
  { data, metric, type, mode, setting, made, rival, step }: CaseOf,
): Promise<Case> {
  const named = { data, metric, type, mode: mode.name, settings: setting.name };
  const { dimension, rows, queries } = made;
  // A third of the rows, as in a growing collection; the engine has no sample option for other types.
  const sampleCount = Math.min(1_000, Math.floor(rows.length / 3));
  const coding =
    type === "u8-elsewhere" ? ({ dataType: "u8", range: rangeWithout(rows) } as const) : { dataType: type };
  const wanted = { dimension, metric, ...coding, settings: setting, sampleCount };
  const random = new Random(seedOf(seed, data, metric, type, mode.name));
  try {
    const { subject, living } = await play(mode, wanted, rows, random, crews);
    try {
      const search = (query: Float32Array, k: number) => subject.search(query, k);
      const counted = await count({ metric, living, search }, queries, step);
      const faults = judgedTypes.has(type) ? faultsOf(counted, rival) : [];
      return { ...named, codes: subject.dataType(), counted, faults };
    } finally {
      await subject.close();
    }
  } catch (error) {
    const cause = (error as Error).cause;
    const fault = `${(error as Error).message}${cause === undefined ? "" : `: ${cause}`}`;
    return { ...named, codes: "?", faults: [fault] };
  }
}

/** A range of values that none of the rows has. */
function rangeWithout(rows: readonly Float32Array[]): { min: number; max: number } {
  let most = 0;
  for (const row of rows) for (const value of row) most = Math.max(most, Math.abs(value));
  return most === 0 ? { min: 1, max: 2 } : { min: 100 * most, max: 200 * most };
}

/** The missed requirements. */
function faultsOf(counted: Counted, rival: Counted | undefined): string[] {
  const { recall, itselfFirst, emptyQueries, queries } = counted;
  const faults: string[] = [];
  if (recall < recallMin) faults.push(`recall ${recall.toFixed(4)}`);
  else if (rival !== undefined && recall < rival.recall - (hitsOfChance + 0.5) / (queries * topK))
    faults.push(`recall ${recall.toFixed(4)}, hnswlib ${rival.recall.toFixed(4)}`);
  if (itselfFirst < itselfFirstMin) faults.push(`itself first ${itselfFirst.toFixed(4)}`);
  if (emptyQueries > emptyQueriesMax)
    faults.push(`${emptyQueries} of ${queries} queries without a right result`);
  return faults;
}

/** A case in one line; its names repeat it. */
export function lineOf({ data, metric, type, codes, mode, settings, counted, faults }: Case): string {
  const seen =
    counted === undefined
      ? ""
      : `recall ${counted.recall.toFixed(4)} itself ${counted.itselfFirst.toFixed(4)} empty ${counted.emptyQueries}`;
  const used = codes === type ? "" : ` (${codes})`;
  const verdict = faults.length === 0 ? "" : `  FAILS: ${faults.join("; ")}`;
  return `${data} ${metric} ${type}${used} ${mode} ${settings}: ${seen}${verdict}`;
}

// --- The command ----------------------------------------------------------------------------------------------------

/** The items with these names; all for "" or "all". @throws an error with the known names */
function named<T>(things: readonly T[], nameOf: (thing: T) => string, names: string): readonly T[] {
  if (names === "" || names === "all") return things;
  return names.split(",").map((name) => {
    const thing = things.find((each) => nameOf(each) === name);
    if (thing === undefined)
      throw new Error(`nothing is called ${name}; there are ${things.map(nameOf).join(", ")}`);
    return thing;
  });
}

const itself = (name: string) => name;
const byName = ({ name }: { name: string }) => name;

if (import.meta.main) {
  let cases: Case[] = [];
  await command({
    name: "odd-data",
    options: {
      seed: 1,
      only: "",
      metric: "",
      type: "",
      mode: "",
      settings: "compared",
      rows: 1,
      queries: 100,
      itself: 1_000,
      short: false,
      "no-rival": false,
      json: "",
    },
    async run({ short, only, metric, type, mode, settings: setting, json, rows, ...options }) {
      const refusal = options["no-rival"] ? "it is not asked for" : rivalRefusal();
      if (refusal !== undefined) say(`hnswlib is left out: ${refusal}`);
      const types: readonly Coding[] = ["auto", ...hnswDataTypes, "u8-elsewhere"];
      const kinds = named(all, byName, only);
      const orders = mode || (short ? "drawn" : "all");
      cases = await oddDataCampaign({
        ...options,
        kinds: short ? kinds.filter(({ isLarge }) => !isLarge) : kinds,
        metrics: named(metricNames, itself, metric),
        types: named(types, itself, type || (short ? "auto,f32" : "")),
        modes: orders === "drawn" ? undefined : named(modes, byName, orders),
        settings: named(Object.values<Settings>(settings), byName, setting),
        scale: rows,
        withRival: refusal === undefined,
        say,
      });
      if (json !== "") writeFileSync(json, JSON.stringify(cases, null, 1));
      const failing = cases.filter(({ faults }) => faults.length > 0);
      for (const each of failing) say(lineOf(each));
      if (failing.length > 0) process.exitCode = 1;
      return { cases: cases.length, "of them fail": failing.length };
    },
    write: (repeat) => writeFigures(cases, repeat),
  });
}
