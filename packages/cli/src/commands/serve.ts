// quiver serve

import { type Command, Option } from "commander";
import { QuiverCommand } from "../command.ts";
import { serve } from "../serve/serve.ts";
import { configFlag, settings } from "../serve/settings.ts";

export function serveCommand(finish: (code: number) => void): Command {
  const command = new QuiverCommand("serve");
  for (const { flag, env, value, help, fallback, list } of settings) {
    const words = `${help} (env: ${env}, default: ${fallback})`;
    if (value === undefined) {
      // Defined as an ordinary flag, because commander would make `--no-x` the negation of an option `x`.
      const option = new Option(`--${flag}`, words);
      option.negate = false;
      command.addOption(option);
      continue;
    }
    const option = new Option(`--${flag} <${value}>`, words);
    if (list) option.argParser((text: string, before: string[] = []) => [...before, ...text.split(",")]);
    command.addOption(option);
  }
  command.addOption(
    new Option(
      `--${configFlag.flag} <file>`,
      `configuration file: a JSON object whose keys are the flags in camel case (env: ${configFlag.env}, default: ${configFlag.file} in the working directory, if it exists)`,
    ),
  );
  command.addHelpText(
    "after",
    `
Flags override environment variables, which override the configuration file.
Sizes: 64MiB, 2GB, 1048576. Durations: 90s, 5m, 1h, 250ms; a bare number is seconds.
On SIGTERM or Ctrl-C, the server finishes the accepted requests and stops with exit code 0.

  quiver serve --port 9000 --data-dir /var/lib/quiver
  QUIVER_ADMIN_KEY=... quiver serve --host 0.0.0.0 --cors-origin https://app.example.org
  quiver serve --host 0.0.0.0 --tls-cert /etc/quiver/cert.pem --tls-key /etc/quiver/key.pem
  echo '{"port": 9000, "memoryBudget": "4GiB"}' > quiver.config.json && quiver serve`,
  );
  command.action(async (flags: Record<string, unknown>) => finish(await serve(flags, process.env)));
  return command;
}
