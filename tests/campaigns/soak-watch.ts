// How healthy is a server process, seen from outside?
//
// Sampled once a second: its private memory, open files, connections, the event-loop lag since the last sample, and the queue metrics.
// Linux only, because it reads /proc.

import { readdirSync, readFileSync, readlinkSync } from "node:fs";

export type Sample = {
  /** Seconds since the watch began. */
  readonly at: number;
  readonly ownBytes: number;
  /** Open files, without connections. */
  readonly files: number;
  readonly connections: number;
  readonly lagP99Ms: number;
  readonly lagMaxMs: number;
  readonly indexBytes: number;
};

export class Watch {
  readonly samples: Sample[] = [];
  readonly #pid: number;
  readonly #metrics: () => Promise<string>;
  readonly #beganMs = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #failure: unknown;

  constructor(pid: number, metrics: () => Promise<string>, everyMs = 1_000) {
    this.#pid = pid;
    this.#metrics = metrics;
    const look = async () => {
      try {
        await this.#look();
      } catch (error) {
        this.#failure ??= error;
      }
      if (this.#timer !== undefined) this.#timer = setTimeout(look, everyMs);
    };
    this.#timer = setTimeout(look, everyMs);
  }

  /** @throws if a sample failed: a server that does not respond is not healthy */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #look(): Promise<void> {
    const text = await this.#metrics();
    const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
    const status = readFileSync(`/proc/${this.#pid}/status`, "utf8");
    const kib = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0);
    let [files, connections] = [0, 0];
    for (const name of readdirSync(`/proc/${this.#pid}/fd`)) {
      if (targetOf(`/proc/${this.#pid}/fd/${name}`).startsWith("socket:")) connections++;
      else files++;
    }
    this.samples.push({
      at: (performance.now() - this.#beganMs) / 1_000,
      ownBytes: 1_024 * (kib("RssAnon") + kib("RssShmem")),
      files,
      connections,
      lagP99Ms: 1_000 * value("nodejs_eventloop_lag_p99_seconds"),
      lagMaxMs: 1_000 * value("nodejs_eventloop_lag_max_seconds"),
      indexBytes: value("quiver_memory_index_bytes"),
    });
  }
}

/** A file that is closed during the sample counts as open. */
function targetOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "gone";
  }
}

/** Slope of the least squares line through the samples: the growth of the value per second. */
export function slopeOf(samples: readonly Sample[], value: (sample: Sample) => number): number {
  const n = samples.length;
  if (n < 2) return 0;
  const meanAt = samples.reduce((sum, { at }) => sum + at, 0) / n;
  const mean = samples.reduce((sum, sample) => sum + value(sample), 0) / n;
  let [above, below] = [0, 0];
  for (const sample of samples) {
    above += (sample.at - meanAt) * (value(sample) - mean);
    below += (sample.at - meanAt) ** 2;
  }
  return below === 0 ? 0 : above / below;
}

/** The given quantile of the values. */
export function quantile(values: readonly number[], share: number): number {
  if (values.length === 0) return 0;
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}
