// quiver repair

import type { Command } from "commander";
import { QuiverCommand } from "../command.ts";
import { loadEngine } from "../engine.ts";
import { UsageError } from "../exit-codes.ts";
import { printJson, printLine } from "../output.ts";
import { countOf } from "../values.ts";
import { couldNotRun, safe } from "./check.ts";

/** Maximum number of losses that are listed without --json. */
const shownMax = 100;

const help = `
With --json there is one line for each loss, {"lost": {...}} with its intact parts, and one {"repaired": {...}} at the end.

Exit codes of repair:
  0    everything was saved, and the new directory passes quiver check
  1    some data is lost, and each loss is listed; the new directory has the rest and passes quiver check
  2    the repair could not run, or its result does not pass quiver check`;

/** @param finish called with the exit code of the process */
export function repairCommand(finish: (code: number) => void): Command {
  return new QuiverCommand("repair")
    .argument("<dir>", "the damaged data directory, which no server may have open; it is not changed")
    .requiredOption("--into <newdir>", "the directory to create; it must be empty or not exist")
    .option("--json", "print JSON lines, for scripts")
    .addHelpText("after", help)
    .action(async (dir: string, { into, json }: { into: string; json?: boolean }) => {
      let losses = 0;
      const tell = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);
      const repaired = await couldNotRun(async () => {
        const { checkDirectory, repairDirectory } = await loadEngine(
          "repair",
          () => import("@quiverdb/server/offline"),
        );
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
        if (losses > shownMax) printLine(`... and ${losses - shownMax} more; --json lists all.`);
        for (const { name, records, lost, indexes } of repaired.collections)
          printLine(
            `${JSON.stringify(name)}: ${countOf(records, "record")} saved, ${lost} lost; indexes: ${indexes.length === 0 ? "none" : indexes.join(", ")}`,
          );
        const { snapshots } = repaired;
        if (snapshots > 0) printLine(`${snapshots} ${snapshots === 1 ? "snapshot" : "snapshots"} copied.`);
        printLine(`Written to ${into}, which passes quiver check. Start a server on it with --data-dir.`);
      }
      finish(losses === 0 ? 0 : 1);
    });
}
