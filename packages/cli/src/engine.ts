// Which commands need the engine in their own process, and can they have it?
//
// Whatever only talks to a server runs on Node.js 20. So every module that needs the engine is loaded here, and only when it is needed.

import { CommandError } from "./exit-codes.ts";

const nodeMajorMin = 24;

/**
 * Loads a module that needs the engine.
 * @param what needs it, as the user wrote it: `--data-dir`
 * @throws CommandError if this Node.js is too old
 */
export async function loadEngine<Module>(what: string, load: () => Promise<Module>): Promise<Module> {
  const { node } = process.versions;
  const uses = `${what} opens the data in this process, which needs`;
  if (Number.parseInt(node, 10) < nodeMajorMin)
    throw new CommandError(
      `${uses} Node.js ${nodeMajorMin} or newer; this is ${node}. In a project, "npm install node@${nodeMajorMin}" gives npx one. Commands that ask a server (--url) run on Node.js 20 and newer.`,
    );
  return load();
}
