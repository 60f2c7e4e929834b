// Which options was a tool given?
//
// A tool prints how it is called where it is asked (--help), and where it is called in another way: then with what was wrong, and exit code 2.

import { type ParseArgsOptionsConfig, parseArgs } from "node:util";

type Values<Options extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ options: Options }>
>["values"];

/** The values of the options. Ends the process for --help and for what is not among the options. @param usage a line for each form of the call */
export function readOptions<const Options extends ParseArgsOptionsConfig>(
  usage: string,
  options: Options,
): Values<Options> {
  try {
    const { help, ...values } = parseArgs({ options: { ...options, help: { type: "boolean", short: "h" } } })
      .values as { help?: boolean };
    if (help !== true) return values as Values<Options>;
  } catch (error) {
    misuse((error as Error).message, usage);
  }
  console.log(usage);
  process.exit(0);
}

/** Ends a tool that was called in a wrong way. */
export function misuse(problem: string, usage: string): never {
  console.error(`${problem}\n\n${usage}`);
  process.exit(2);
}
