// How does the help of the command line become pages?
//
// One page for each command, with the help of its subcommands: the text that `--help` prints.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { QuiverCommand } from "@quiverdb/cli/command";
import { wholeProgram } from "@quiverdb/cli/program";
import type { Generated } from "./contents.ts";

/** So many fit on a page without the outline beside it. */
const columns = 84;
const wide = "---\naside: false\n---\n";

/** @param pages folder of the pages */
export async function writeCommandReference(pages: string): Promise<Generated> {
  const quiver = await wholeProgram();
  const folder = join(pages, "cli");
  mkdirSync(folder, { recursive: true });
  const commands = quiver.commands as QuiverCommand[];
  const lines = commands.map(
    (each) => `| [\`quiver ${each.name()}\`](/cli/${each.name()}.md) | ${each.description()} |`,
  );
  const table = ["| command | |", "|---|---|", ...lines].join("\n");
  const intro = "[What they have in common](/packages/cli.md), and how imports work.";
  writeFileSync(
    join(folder, "index.md"),
    `${[wide, "# Commands", intro, table, helpOf(quiver)].join("\n\n")}\n`,
  );
  for (const command of commands) {
    const sections = (command.commands as QuiverCommand[])
      .filter((each) => each.name() !== "help")
      .map((each) => `## ${each.path}\n\n${helpOf(each)}`);
    const text = [
      wide,
      `# ${command.path}`,
      `${sentence(command.description())}`,
      helpOf(command),
      ...sections,
    ];
    writeFileSync(join(folder, `${command.name()}.md`), `${text.join("\n\n")}\n`);
  }
  const parts = commands.map((each) => ({ file: `cli/${each.name()}.md`, text: each.name() }));
  return { file: "cli/index.md", text: "Commands", parts };
}

function helpOf(command: QuiverCommand): string {
  let help = "";
  command.configureOutput({
    writeOut: (text) => {
      help += text;
    },
    getOutHelpWidth: () => columns,
    getOutHasColors: () => false,
  });
  command.outputHelp();
  return `\`\`\`text\n${help.trim()}\n\`\`\``;
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
