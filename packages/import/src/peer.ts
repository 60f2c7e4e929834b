// How is a client loaded that need not be installed?

import { QuiverError } from "@quiver/client";

/**
 * The module of an optional peer. Its name is a variable here, and bundlers are told not to look for a package that need not be there.
 * @param title what messages call the source
 * @throws QuiverError source_failed that says how to install it
 */
export async function peer<Module>(name: string, title: string): Promise<Module> {
  try {
    return await import(/* @vite-ignore */ /* webpackIgnore: true */ /* turbopackIgnore: true */ name);
  } catch (cause) {
    throw new QuiverError(
      "source_failed",
      `Reading ${title} needs the package ${name}, which cannot be loaded (${(cause as Error).message}). Install it: npm install ${name}`,
      { package: name },
      { cause },
    );
  }
}
