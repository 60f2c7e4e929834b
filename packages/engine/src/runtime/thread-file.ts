// Is the file of a thread where it should be?

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * The file of a thread's program.
 * @throws Error if it is missing, as in a program that was bundled into one file
 */
export function threadFile(url: URL): URL {
  if (existsSync(fileURLToPath(url))) return url;
  throw new Error(
    `The file of a thread is missing: ${fileURLToPath(url)}. A bundler that puts a program into one file must leave out ` +
      "@quiverdb/database (esbuild: --external:@quiverdb/database), which then is installed beside the program.",
  );
}
