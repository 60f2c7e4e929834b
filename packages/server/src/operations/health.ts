// Is the server alive, and is it ready?

import type { Database, DatabaseStatistics } from "@quiverdb/engine/database/contract";
import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
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

/**
 * @param clock milliseconds since 1970
 * @param inCluster what is wrong with the cluster of this node, in numbers
 */
export function registerHealth(
  app: FastifyInstance,
  database: Database,
  clock: () => number,
  inCluster: () => object | undefined,
): void {
  registerLive(app);

  const waitEndMs = clock() + limits.recoveryWaitMs;

  app.get("/health/ready", options, async () => {
    // A load balancer must not take the whole server out of service while some collections are intact, so this only reports numbers. The
    // names of the affected collections are not public: the list of collections, the index status and the log have them.
    const statistics = database.statistics();
    const lagging = database.isRecovered
      ? 0
      : statistics.collections.filter((collection) => collection.indexProgress < 1).length;
    // One index that lags for minutes must not keep all other data away: its searches say that it lags, everything else is served.
    if (!database.isRecovered && clock() < waitEndMs)
      throw new QuiverError("not_ready", "The server is still recovering its collections. Ask again later.", {
        collections_recovering: lagging,
      });
    const cluster = inCluster();
    const degraded = degradedBy(statistics) ?? (cluster && {});
    return {
      status: degraded === undefined ? "ready" : "degraded",
      ...(lagging > 0 && { collections_recovering: lagging }),
      ...degraded,
      ...(cluster && { cluster }),
    };
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
