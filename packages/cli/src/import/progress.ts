// How does an import show its progress?
//
// On a terminal: one bar that is redrawn. Elsewhere: a line every few seconds. With --quiet: nothing. All on stderr.

import progressBar from "cli-progress";
import { formatBytes, formatCount, formatDuration } from "../values.ts";

const lineEveryMs = 5_000;
/** The rate is measured over about this many milliseconds. */
const rateWindowMs = 10_000;

/** `bytes` are those of the input; of a server, which has none, its records. */
export type ProgressUpdate = { readonly bytes: number; readonly records: number };

export interface Progress {
  update(update: ProgressUpdate): void;
  /** Prints a line, above the bar if there is one. */
  say(line: string): void;
  stop(): void;
}

export type ProgressOptions = {
  /** Size of the whole input in bytes; 0 if unknown. */
  readonly totalBytes: number;
  /** The sizes are numbers of records. */
  readonly inRecords?: boolean;
  readonly start: ProgressUpdate;
  readonly quiet: boolean;
  readonly stream: NodeJS.WriteStream;
  readonly now?: () => number;
};

export function showProgress(options: ProgressOptions): Progress {
  const write = (line: string) => options.stream.write(`${line}\n`);
  if (options.quiet) return { update: () => undefined, say: write, stop: () => undefined };
  return options.stream.isTTY && options.totalBytes > 0 ? bar(options) : lines(options, write);
}

function bar({ totalBytes, inRecords = false, start, stream, now = Date.now }: ProgressOptions): Progress {
  const rate = new Rate(start, now);
  const shown = new progressBar.SingleBar(
    {
      format: "{bar} {percent} | {read} of {total_read} | {records} records | {rate}/s | {left}",
      stream,
      barsize: 24,
      hideCursor: true,
      fps: 5,
    },
    progressBar.Presets.shades_classic,
  );
  const payload = ({ bytes, records }: ProgressUpdate) => ({
    percent: `${Math.min(100, Math.floor((bytes / totalBytes) * 100))}%`,
    read: amountOf(bytes, inRecords),
    total_read: amountOf(totalBytes, inRecords),
    records: formatCount(records),
    rate: formatCount(rate.recordsPerSecond),
    left: rate.left(totalBytes),
  });
  shown.start(totalBytes, start.bytes, payload(start));
  return {
    update: (update) => {
      rate.add(update);
      shown.update(Math.min(update.bytes, totalBytes), payload(update));
    },
    // Clears the bar's line; the next redraw shows it below.
    say: (line) => stream.write(`\r\u001b[K${line}\n`),
    stop: () => shown.stop(),
  };
}

/** An amount of the input. */
const amountOf = (amount: number, inRecords: boolean): string =>
  inRecords ? formatCount(amount) : formatBytes(amount);

function lines(
  { totalBytes, inRecords = false, start, now = Date.now }: ProgressOptions,
  write: (line: string) => void,
): Progress {
  const rate = new Rate(start, now);
  let lastLineAt = now();
  return {
    update: (update) => {
      rate.add(update);
      if (now() - lastLineAt < lineEveryMs) return;
      lastLineAt = now();
      const total = totalBytes > 0 ? ` of ${amountOf(totalBytes, inRecords)}, ${rate.left(totalBytes)}` : "";
      write(
        `${formatCount(update.records)} records, ${formatCount(rate.recordsPerSecond)}/s, read ${amountOf(update.bytes, inRecords)}${total}`,
      );
    },
    say: write,
    stop: () => undefined,
  };
}

/** Speed over the last seconds, from the reported progress. */
export class Rate {
  readonly #now: () => number;
  readonly #points: (ProgressUpdate & { at: number })[];

  constructor(start: ProgressUpdate, now: () => number) {
    this.#now = now;
    this.#points = [{ ...start, at: now() }];
  }

  add(update: ProgressUpdate): void {
    const at = this.#now();
    this.#points.push({ ...update, at });
    // One point older than the window is kept, so that the window is always covered.
    while (this.#points.length > 2 && this.#points[1].at < at - rateWindowMs) this.#points.shift();
  }

  get recordsPerSecond(): number {
    return this.#perSecond(({ records }) => records);
  }

  /** Remaining time as text. */
  left(totalBytes: number): string {
    const bytesPerSecond = this.#perSecond(({ bytes }) => bytes);
    const bytesLeft = totalBytes - (this.#points.at(-1)?.bytes ?? 0);
    if (bytesLeft <= 0) return "nearly done";
    return bytesPerSecond > 0 ? `${formatDuration((bytesLeft / bytesPerSecond) * 1000)} left` : "...";
  }

  #perSecond(value: (point: ProgressUpdate) => number): number {
    const first = this.#points[0];
    const last = this.#points[this.#points.length - 1];
    const ms = last.at - first.at;
    return ms > 0 ? ((value(last) - value(first)) / ms) * 1000 : 0;
  }
}
