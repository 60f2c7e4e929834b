import { join } from "node:path";

// In a project of yours, where @quiverdb/client is installed, this file is not needed. Here the client is the one of the repository, above
// this directory, as TypeScript.
export default {
  transpilePackages: ["@quiverdb/client", "@quiverdb/protocol"],
  turbopack: { root: join(import.meta.dirname, "../..") },
};
