// Which options does a benchmark take, and is its result stored?
//
// Some options choose what is measured, others how. With one of the latter a run is a trial, which is only printed. `--write` stores
// it nevertheless, and `--no-write` stores nothing.

import { type ParseArgsOptionsConfig, parseArgs } from "node:util";

type Defaults = Readonly<Record<string, string | boolean>>;
type Values<D extends Defaults> = { readonly [Name in keyof D]: D[Name] extends boolean ? boolean : string };

/**
 * Reads the command line. Where it is wrong, the process ends with what is wrong and which options there are.
 * @param chosen options that choose what is measured, with their defaults
 * @param changed options that change how it is measured, with theirs
 */
export function readOptions<C extends Defaults, D extends Defaults>(
  chosen: C,
  changed: D,
): { readonly values: Values<C & D>; readonly isKept: boolean } {
  const defaults: Defaults = { ...chosen, ...changed };
  const options = Object.fromEntries(
    Object.entries(defaults).map(([name, value]) => [
      name,
      { type: typeof value === "boolean" ? ("boolean" as const) : ("string" as const) },
    ]),
  );
  const values = parsed({ ...options, write: { type: "boolean" } });
  const given: Record<string, unknown> = values;
  const isTrial = Object.keys(changed).some((name) => given[name] !== undefined);
  return {
    values: { ...defaults, ...given } as Values<C & D>,
    isKept: typeof given.write === "boolean" ? given.write : !isTrial,
  };
}

function parsed(options: ParseArgsOptionsConfig): Readonly<Record<string, unknown>> {
  try {
    return parseArgs({ options, allowNegative: true }).values;
  } catch (error) {
    const names = Object.keys(options).map((name) => `--${name}`);
    console.error(`${(error as Error).message}\nThe options are ${names.join(", ")}.`);
    process.exit(2);
  }
}
