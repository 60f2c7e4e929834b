// How does a backup or a restore show its progress?
//
// On a terminal: one bar for each stage. Elsewhere: a line every few seconds, and one when a stage is done. On stderr.

import progressBar from "cli-progress";
import { formatBytes } from "../values.ts";

const lineEveryMs = 5_000;

export interface Stage {
  /** @param done of the stage's total, in its unit */
  update(done: number): void;
  end(): void;
}

export type StageOptions = {
  readonly quiet: boolean;
  readonly stream: NodeJS.WriteStream;
  readonly now?: () => number;
};

const silent: Stage = { update: () => undefined, end: () => undefined };

/**
 * Starts to show a stage.
 * @param total in bytes, or null for per cent
 */
export function showStage(what: string, total: number | null, options: StageOptions): Stage {
  const { quiet, stream, now = Date.now } = options;
  if (quiet) return silent;
  const words = (done: number) =>
    total === null ? `${Math.floor(done)} %` : `${formatBytes(done)} of ${formatBytes(total)}`;
  if (stream.isTTY) {
    const bar = new progressBar.SingleBar(
      { format: `${what} {bar} {words}`, stream, barsize: 24, hideCursor: true, fps: 5 },
      progressBar.Presets.shades_classic,
    );
    const end = total ?? 100;
    bar.start(end, 0, { words: words(0) });
    return {
      update: (done) => bar.update(Math.min(done, end), { words: words(done) }),
      end: () => bar.stop(),
    };
  }
  let saidAt = now();
  return {
    update: (done) => {
      if (now() - saidAt < lineEveryMs) return;
      saidAt = now();
      stream.write(`${what}: ${words(done)}\n`);
    },
    end: () => undefined,
  };
}
