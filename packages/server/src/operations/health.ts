// Is the server alive, and is it ready?

import type { Database, DatabaseStatistics } from "@quiverdb/engine/database/contract";
import { QuiverError } from "@quiverdb/protocol/errors";
import type { FastifyInstance } from "fastify";

const options = {
  config: { need: { role: "anyone", collections: "nowhere", takesFilter: true } as const },
  schema: { hide: true } as object,
};

/** Every thread that takes connections says so itself. */
export const livePath = "/health/live";

export function registerLive(app: FastifyInstance): void {
  app.get(livePath, options, async () => ({ status: "live" }));
}

export function registerHealth(app: FastifyInstance, database: Database): void {
  registerLive(app);

  app.get("/health/ready", options, async () => {
    // A load balancer must not take the whole server out of service while some collections are intact, so this only reports numbers. The
    // names of the affected collections are not public: the list of collections, the index status and the log have them.
    if (database.isRecovered) {
      const degraded = degradedBy(database.statistics());
      return degraded === undefined ? { status: "ready" } : { status: "degraded", ...degraded };
    }
    // Until the indexes have caught up, searches are correct but slower; a load balancer may prefer another server.
    const collections = database
      .statistics()
      .collections.filter((collection) => collection.indexProgress < 1);
    throw new QuiverError("not_ready", "The server is still recovering its collections. Ask again later.", {
      collections_recovering: collections.length,
    });
  });
}

/** The number of each kind of problem; undefined if there are none. */
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
