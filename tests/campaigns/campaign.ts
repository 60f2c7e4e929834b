// What do all campaigns share?
//
// A campaign is a program: `node tests/campaigns/NAME.ts [--OPTION VALUE]...`, and `npm run campaign NAME` is its long form (tools/programs.ts). Besides its own
// options each has
//
//   --seed N           repeats the random choices of a run; the seed is always printed
//   --figures          writes the results into docs/reliability.md (--write is the same)
//   --tally FILE       if it counts: continues the counts of earlier runs, so that a long run can be split into parts (--sum is the same)
//   --replay DIR       if it keeps failures: repeats the comparison of one
//
// It ends at the first violation, with the message and the seed, and exit code 1.

import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Figures, writeFigures } from "./figures.ts";

type Values = Readonly<Record<string, string | number | boolean>>;
/** Defaults of one type stand for all values of it. */
type Given<O extends Values> = {
  readonly [K in keyof O]: O[K] extends number ? number : O[K] extends boolean ? boolean : string;
};

export type Say = (line: string) => void;
export const say: Say = (line) => void process.stdout.write(`${line}\n`);

export type Campaign<O extends Values, C> = {
  /** Names it for `npm run campaign`, and the place in docs/reliability.md. */
  readonly name: string;
  /** Its own options with their defaults. The seed is random unless it has a default here. */
  readonly options: O;
  /** The reason why it cannot run here; null if it can. */
  readonly skip?: () => string | null;
  /** Counts of a new run, which the run updates. */
  readonly counts?: () => C;
  /** A line about the counts, printed every minute. */
  readonly progress?: (counts: C) => string;
  /** @returns the results to print and write @throws at the first violation */
  readonly run: (options: Given<O> & { readonly seed: number }, counts: C) => Promise<Figures>;
  /** Whether these options and counts are a whole run, whose figures may be written. */
  readonly isWhole?: (options: Given<O>, counts: C) => boolean;
  readonly write?: (command: string, figures: Figures) => void;
  /** Repeats the comparison of a kept failure. */
  readonly replay?: (folder: string) => Promise<void>;
};

const common = {
  figures: { type: "boolean" },
  write: { type: "boolean" },
  tally: { type: "string" },
  sum: { type: "string" },
  replay: { type: "string" },
} as const;

/** Runs a campaign with the options of the command line. */
export async function command<O extends Values, C = undefined>(
  campaign: Campaign<O, C>,
  args = process.argv.slice(2),
): Promise<void> {
  const own = { seed: Date.now() % 1_000_000, ...campaign.options };
  const texts = Object.entries(own).map(([name, value]) => {
    return [name, { type: typeof value === "boolean" ? ("boolean" as const) : ("string" as const) }];
  });
  const { values } = parseArgs({ args, options: { ...Object.fromEntries(texts), ...common } });
  const { figures: isWritten, write, sum, tally = sum, replay, ...given } = values as Record<string, never>;
  if (replay !== undefined && campaign.replay) return campaign.replay(replay);
  const reason = campaign.skip?.() ?? null;
  if (reason !== null) return say(`skipped: ${reason}`);
  const options = optionsOf(own, given) as unknown as Given<O> & { readonly seed: number };
  say(`seed ${options.seed}`);
  const counts = continued(campaign.counts, tally);
  try {
    const keep = () => {
      if (campaign.counts && tally) writeFileSync(tally, JSON.stringify(counts));
    };
    const tell = () => {
      if (campaign.progress) say(campaign.progress(counts));
      keep();
    };
    const figures = await everyMinute(tell, campaign.run(options, counts));
    keep();
    for (const [what, value] of Object.entries(figures)) say(`${what}: ${value}`);
    if ((isWritten || write) && (campaign.isWhole?.(options, counts) ?? true)) {
      // A run in parts is said to be one: no seed repeats all of them.
      const repeat = repeatOf(campaign.name, {
        seed: options.seed,
        ...given,
        ...(tally === undefined ? {} : { tally: "FILE" }),
      });
      (campaign.write ?? ((line, seen) => writeFigures(campaign.name, line, seen)))(repeat, figures);
    }
  } catch (error) {
    say(`FAILED with seed ${options.seed}: ${(error as Error).stack}`);
    process.exitCode = 1;
  }
}

/** @throws if a number is not one */
function optionsOf(defaults: Values, given: Values): Values {
  const parsed = Object.entries(given).map(([name, value]) => {
    if (typeof defaults[name] !== "number") return [name, value];
    if (value === "" || Number.isNaN(Number(value)))
      throw new Error(`--${name} needs a number, not "${value}"`);
    return [name, Number(value)];
  });
  return { ...defaults, ...Object.fromEntries(parsed) };
}

function continued<C>(counts: (() => C) | undefined, tally: string | undefined): C {
  if (tally !== undefined && existsSync(tally)) return JSON.parse(readFileSync(tally, "utf8")) as C;
  return counts?.() as C;
}

/** The command that repeats a run. */
function repeatOf(name: string, given: Values): string {
  const flags = Object.entries(given).map(([flag, value]) => {
    return value === true
      ? `--${flag}`
      : `--${flag} ${/\s/.test(String(value)) ? JSON.stringify(value) : value}`;
  });
  return `npm run campaign ${name} -- ${flags.join(" ")}`;
}

/** What is told and kept every minute is not lost if the run is ended. */
async function everyMinute<T>(tell: () => void, run: Promise<T>): Promise<T> {
  const telling = setInterval(tell, 60_000);
  try {
    return await run;
  } finally {
    clearInterval(telling);
  }
}

/** A folder that is removed at the end of its block: `using folder = new TemporaryFolder("kill")`. */
export class TemporaryFolder {
  readonly path: string;

  /** @param parent a directory for it; the system's one for temporary files by default */
  constructor(name: string, parent = tmpdir()) {
    this.path = realpathSync(mkdtempSync(join(parent, `quiver-${name}-`)));
  }

  join(...names: string[]): string {
    return join(this.path, ...names);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

/** Acts on all items, one at a time in each lane. No lane begins another item after a failure; the first one is thrown. */
export async function inLanes<T>(
  items: Iterable<T>,
  lanes: number,
  act: (item: T, lane: number) => Promise<void>,
): Promise<void> {
  const rest = items[Symbol.iterator]();
  const failures: unknown[] = [];
  const work = async (lane: number) => {
    for (let next = rest.next(); !next.done && failures.length === 0; next = rest.next())
      await act(next.value, lane);
  };
  await Promise.all(
    Array.from({ length: lanes }, (_, lane) => work(lane).catch((error: unknown) => failures.push(error))),
  );
  if (failures.length > 0) throw failures[0];
}

/** Flags of a node, so that a collection has so many shards with 2 replicas each; 1: all nodes have all of it. */
export const shardFlags = (shards: number): string[] =>
  shards === 1 ? [] : ["--cluster-shards", `${shards}`, "--cluster-replicas", "2"];
