// How is a client loaded that need not be installed, and where is its server?

import { QuiverError } from "@quiverdb/client";

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

/** The parts of a server's address. @throws QuiverError invalid_request, without the address: it may have a password */
export function addressOf(url: string | URL, title: string): URL {
  const address = URL.canParse(String(url)) ? new URL(url) : undefined;
  if (address !== undefined && /^https?:$/.test(address.protocol)) return address;
  throw new QuiverError("invalid_request", `The url of ${title} is none of http:// or https://.`);
}
