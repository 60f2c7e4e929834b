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
    const { damaged } = database.statistics();
    // A balancer must not take the whole server away from those whose collections are in order; who looks is told. Which ones
    // they are is not for everyone: the list of collections says so.
    if (database.isRecovered)
      return damaged.length === 0
        ? { status: "ready" }
        : { status: "degraded", collections_damaged: damaged.length };
    // While nothing waits for the indexes, searches are right but slower; a balancer may still prefer another server.
    const collections = database
      .statistics()
      .collections.filter((collection) => collection.indexProgress < 1);
    throw new QuiverError("not_ready", "The server is still recovering its collections. Ask again later.", {
      collections_recovering: collections.length,
    });
  });
}
