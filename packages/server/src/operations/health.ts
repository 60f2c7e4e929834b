// Is the server alive, and is it ready for its work?

import type { Database, DatabaseStatistics } from "@quiver/engine/database/contract";
import { QuiverError } from "@quiver/protocol/errors";
import type { FastifyInstance } from "fastify";

export function registerHealth(app: FastifyInstance, database: Database): void {
  const options = {
    config: { need: { role: "anyone", collections: "nowhere" } as const },
    schema: { hide: true } as object,
  };

  app.get("/health/live", options, async () => ({ status: "live" }));

  app.get("/health/ready", options, async () => {
    // A balancer must not take the whole server away from those whose collections are in order; who looks is told. Which ones
    // they are is not for everyone: the list of collections, an index's status and the log say so.
    if (database.isRecovered) {
      const degraded = degradedBy(database.statistics());
      return degraded === undefined ? { status: "ready" } : { status: "degraded", ...degraded };
    }
    // While nothing waits for the indexes, searches are right but slower; a balancer may still prefer another server.
    const collections = database
      .statistics()
      .collections.filter((collection) => collection.indexProgress < 1);
    throw new QuiverError("not_ready", "The server is still recovering its collections. Ask again later.", {
      collections_recovering: collections.length,
    });
  });
}

/** What is not as it should be, in numbers; undefined when all is. */
function degradedBy({
  damaged,
  failing,
  collections,
  writerFailure,
}: DatabaseStatistics): object | undefined {
  const tasks = collections.reduce((sum, collection) => sum + collection.failing.length, failing.length);
  if (damaged.length === 0 && tasks === 0 && writerFailure === undefined) return undefined;
  return {
    ...(damaged.length > 0 && { collections_damaged: damaged.length }),
    ...(tasks > 0 && { background_tasks_failing: tasks }),
    ...(writerFailure !== undefined && { writes_refused: true }),
  };
}
