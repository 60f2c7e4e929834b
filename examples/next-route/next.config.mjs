import { join } from "node:path";

// In a project of yours, where @quiver/client is installed, this file is not needed. Here the client is the one of the repository, above
// this directory, as TypeScript.
export default {
  transpilePackages: ["@quiver/client", "@quiver/protocol"],
  turbopack: { root: join(import.meta.dirname, "../..") },
};
