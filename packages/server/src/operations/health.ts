// Is the server alive, and is it ready for its work?

import type { Database } from "@quiver/engine/database/contract";
import { QuiverError } from "@quiver/protocol/errors";
import type { FastifyInstance } from "fastify";

export function registerHealth(app: FastifyInstance, database: Database): void {
  const options = {
    config: { need: { role: "anyone", collections: "nowhere" } as const },
    schema: { hide: true } as object,
  };

  app.get("/health/live", options, async () => ({ status: "live" }));

  app.get("/health/ready", options, async () => {
    if (database.isRecovered) return { status: "ready" };
    // While nothing waits for the indexes, searches are right but slower; a balancer may still prefer another server.
    const collections = database
      .statistics()
      .collections.filter((collection) => collection.indexProgress < 1);
    throw new QuiverError("not_ready", "The server is still recovering its collections. Ask again later.", {
      collections_recovering: collections.length,
    });
  });
}
