// quiver repair

import type { Command } from "commander";
import { QuiverCommand } from "../command.ts";
import { UsageError } from "../exit-codes.ts";
import { printJson, printLine } from "../output.ts";
import { couldNotRun, safe } from "./check.ts";

/** Losses that are shown one by one where no --json asks for all. */
const shownMax = 100;

const help = `
With --json there is a line for each loss, {"lost": {...}} with all that is intact of it, and at the end one {"repaired": {...}}.

Exit codes of repair:
  0    everything was taken over, and the new directory passes quiver check
  1    what could be saved is in the new directory, which passes quiver check; what is lost is named
  2    the repair could not run, or its result does not pass quiver check`;

/** @param finish told the process's exit code */
export function repairCommand(finish: (code: number) => void): Command {
  return new QuiverCommand("repair")
    .description("save everything that is intact in a damaged data directory into a new one")
    .argument("<dir>", "the damaged data directory, which no server has open; nothing in it is changed")
    .requiredOption("--into <newdir>", "the directory to make; it must be empty, or not be there")
    .option("--json", "answer with lines of JSON, for scripts")
    .addHelpText("after", help)
    .action(async (dir: string, { into, json }: { into: string; json?: boolean }) => {
      let losses = 0;
      const tell = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);
      const repaired = await couldNotRun(async () => {
        const { checkDirectory, repairDirectory } = await import("@quiver/server/offline");
        const result = await repairDirectory(dir, into, {
          onLoss: (loss) => {
            losses++;
            if (json) tell({ lost: loss });
            else if (losses <= shownMax)
              printLine(
                `LOST  ${loss.collection === "" ? "" : `${JSON.stringify(loss.collection)}: `}${safe(loss.message)}`,
              );
          },
        });
        const { findings_total, findings } = await checkDirectory(into);
        if (findings_total > 0)
          throw new UsageError(`The result does not pass quiver check: ${findings[0].message}`);
        return result;
      });
      if (json) printJson({ repaired: { ...repaired, losses } });
      else {
        if (losses > shownMax) printLine(`... and ${losses - shownMax} more; --json tells all.`);
        for (const { name, records, lost, indexes } of repaired.collections)
          printLine(
            `${JSON.stringify(name)}: ${records} records saved, ${lost} lost; indexes: ${indexes.length === 0 ? "none" : indexes.join(", ")}`,
          );
        const { snapshots } = repaired;
        if (snapshots > 0)
          printLine(`${snapshots} ${snapshots === 1 ? "snapshot" : "snapshots"} taken over.`);
        printLine(`Written to ${into}, which passes quiver check. Start a server on it with --data-dir.`);
      }
      finish(losses === 0 ? 0 : 1);
    });
}
