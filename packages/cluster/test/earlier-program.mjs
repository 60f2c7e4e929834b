// A program of before shards: it reads messages of form 1 only. Loaded with --import, it counts where QUIVER_TEST_EARLIER is set.

import { registerHooks } from "node:module";

if (process.env.QUIVER_TEST_EARLIER === "1")
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      if (!url.endsWith("/cluster/src/catalog-message.ts")) return loaded;
      const source = String(loaded.source);
      const earlier = source.replace("const form = 2;", "const form = 1;");
      if (earlier === source) throw new Error("catalog-message.ts has no line `const form = 2;`");
      return { ...loaded, source: earlier };
    },
  });
