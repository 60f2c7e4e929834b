// What does a serving thread run?
//
// The HTTP application with the operations that serving threads run (`threads` in their records), on the port that all threads share.
// Everything else is forwarded to the owner.

import { parentPort, workerData } from "node:worker_threads";
import { Calls, collectAtRest } from "@quiverdb/engine/database/contract";
import { ThreadDatabase } from "@quiverdb/engine/database/threads/thread-database";
import { invariant } from "@quiverdb/protocol/invariant";
import { limits } from "@quiverdb/protocol/limits";
import type { FastifyListenOptions } from "fastify";
import { createApplication } from "../application.ts";
import { openGate } from "../auth/gate.ts";
import { Connections } from "../connections.ts";
import { postedLog } from "../operations/log.ts";
import { startTracing } from "../operations/tracing.ts";
import { drainConnections } from "../stopping.ts";
import { version } from "../version.ts";
import { Forwarding, isForThread } from "./forwarding.ts";
import { LeasedGate } from "./leases.ts";
import type { AliasesCall, ForgetCall, ListenCall, ShedCall, ThreadStart } from "./messages.ts";
import { SharedCounts } from "./shared-counts.ts";

invariant(parentPort !== null, "this is the program of a thread");
const { slot, config, socket, counts, aliases: first } = workerData as ThreadStart;
const aliases = { current: first };
const complete = { ...config, clock: Date.now };
const database = new ThreadDatabase(slot);
const connections = new Connections();
const forwarding = new Forwarding(socket, connections);
let isStopping = false;

/** The numbers of the accounts that are known here; whoever needs no key has the first one. */
const accounts = new Map<string, number>();
const leased = new LeasedGate(
  (call) => calls.call("enter", call),
  (payer, account) => accounts.set(payer, account),
  Date.now,
);
const log = postedLog(config.logLevel, (lines) => calls.tell("log", { lines }));

const tracing = await startTracing(version);

const { app, metrics } = await createApplication({
  config: complete,
  thread: { database, forward: forwarding.forward, isOwn: isForThread },
  shared: {
    threads: config.servingThreads,
    countsOf: (limit) => new SharedCounts(counts, limit, slot, (key) => accounts.get(key) ?? 0),
  },
  gate: config.noAuth ? openGate(Date.now, limits.sessionIdleMs, config.corsOrigins) : leased,
  log,
  tracing,
  connections,
  isStopping: () => isStopping,
  aliases,
  version,
});

const calls: Calls = new Calls(parentPort, {
  ...database.handlers,
  ready: () => null,
  async listen({ host, port, backlog }: ListenCall) {
    // Fastify passes on what its types do not know yet.
    const options: FastifyListenOptions & { reusePort: boolean } = { host, port, backlog, reusePort: true };
    await app.listen(options);
    return app.server.address();
  },
  forget: ({ who }: ForgetCall) => leased.forget(who),
  aliases: ({ aliases: current }: AliasesCall) => {
    aliases.current = current;
  },
  metrics: () => metrics.counted(),
  lastHour: () => metrics.lastHour(),
  shed: ({ share }: ShedCall) => connections.shed(share),
  async stop() {
    isStopping = true;
    await drainConnections(app, connections, config.closeTimeoutMs);
    forwarding.close();
    await database.close();
    await tracing?.close().catch((err) => log.logger.warn({ err }, "the last traces could not be sent"));
    log.end();
  },
});
database.connect(calls);
collectAtRest();
