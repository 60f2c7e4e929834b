// Which version of the package is this?

import { readFileSync } from "node:fs";

const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
};

/** That of package.json. */
export const version = manifest.version;
