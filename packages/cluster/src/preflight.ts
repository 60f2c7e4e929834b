// Are the NATS servers what a cluster needs?
//
// What they must be is asked before anything is created there. How a server syncs is told by its monitoring, or to its system account.

import { JetStreamApiError } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { compareVersions, leastVersion, recommendedVersion } from "./dev/nats-server.ts";

const payloadMin = 8 * 1_000_000;
const serversMin = 3;

export type PreflightOptions = {
  /** Accepts servers that do not tell how they sync. */
  readonly allowUnverifiedSync: boolean;
  readonly monitors?: readonly string[] | undefined;
  warn?(message: string): void;
};

/** @throws Error with the reason and what to do */
export async function preflight(nats: NatsConnection, options: PreflightOptions): Promise<void> {
  const { info } = nats;
  if (info === undefined) throw new Error("no NATS server has introduced itself");
  const version = info.version;
  if (compareVersions(version, leastVersion) < 0)
    throw new Error(
      `the NATS server has version ${version}; a cluster needs ${leastVersion} or newer, and ${recommendedVersion} is recommended (below 2.10.23 a killed server could lose a stream)`,
    );
  if (compareVersions(version, recommendedVersion) < 0)
    options.warn?.(
      `nats-server ${version} works; ${recommendedVersion} or newer is recommended, because faults are mended there by which a server could lose messages that it had acknowledged`,
    );
  if (info.jetstream !== true)
    throw new Error(
      "the NATS server has no JetStream; add jetstream { store_dir: ..., sync_interval: always } to its configuration",
    );
  if (info.max_payload < payloadMin)
    throw new Error(
      `the NATS servers take messages of ${info.max_payload} bytes; a cluster needs max_payload: 8MB in their configuration`,
    );
  await requireSync(nats, options);
}

/** Codes of JetStream: there are too few servers, or they are in no cluster. */
const tooFewCodes = [10005, 10074];

/** What a node tells if a stream of three replicas cannot be made. */
export function replicasError(error: unknown): unknown {
  if (!(error instanceof JetStreamApiError) || !tooFewCodes.includes(error.code)) return error;
  return new Error(
    `the NATS servers cannot keep ${serversMin} replicas of a stream (${error.message}); a cluster needs ${serversMin} servers or more, in one cluster, with JetStream`,
  );
}

/** `/jsz` of monitoring; the same body from the system account. */
type JetStreamReport = {
  readonly config?: { readonly sync_always?: boolean; readonly sync_interval?: number };
};

async function requireSync(nats: NatsConnection, options: PreflightOptions): Promise<void> {
  const { reports, silent } = await syncReports(nats, options.monitors ?? usualMonitors(nats));
  if (reports.some(({ config }) => config?.sync_always !== true))
    throw new Error(
      "a NATS server does not sync each message, so it can lose what it has acknowledged when several servers fail at once; write sync_interval: always into the jetstream block of all servers",
    );
  if (silent.length === 0 || options.allowUnverifiedSync) return;
  throw new Error(
    `it is unknown how the NATS servers sync: the system account does not answer, nor does the monitoring at ${silent.join(", ")} (http: 8222 in the configuration, --cluster-monitor here); set sync_interval: always on all servers, and give --allow-unverified-sync`,
  );
}

const askMs = 1_000;

/** What the servers tell, and the monitoring addresses that do not answer, if all have to be asked there. */
async function syncReports(
  nats: NatsConnection,
  monitors: readonly string[],
): Promise<{ reports: JetStreamReport[]; silent: string[] }> {
  const reports: JetStreamReport[] = [];
  try {
    const answers = await nats.requestMany("$SYS.REQ.SERVER.PING.JSZ", "{}", {
      maxWait: askMs,
      maxMessages: 100,
    });
    for await (const answer of answers) {
      const { data } = answer.json<{ data?: JetStreamReport }>();
      if (data !== undefined) reports.push(data);
    }
  } catch {
    // Not the system account: monitoring is asked.
  }
  if (reports.length >= serversMin) return { reports, silent: [] };
  const silent: string[] = [];
  for (const url of monitors) {
    try {
      const answer = await fetch(`${url}/jsz?config=true`, { signal: AbortSignal.timeout(askMs) });
      if (!answer.ok) throw new Error(`${url} answers ${answer.status}`);
      reports.push((await answer.json()) as JetStreamReport);
    } catch {
      silent.push(url);
    }
  }
  return { reports, silent };
}

/** Where monitoring usually is. */
function usualMonitors(nats: NatsConnection): string[] {
  const servers = [nats.getServer(), ...(nats.info?.connect_urls ?? [])];
  return [...new Set(servers.map((server) => `http://${server.replace(/:\d+$/, "")}:8222`))];
}
