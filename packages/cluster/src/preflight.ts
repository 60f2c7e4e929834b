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

/** What `/varz` of a server's monitoring tells; the same from the system account, and a part of it to each connection. */
type ServerReport = {
  readonly server_name?: string;
  readonly version: string;
  readonly max_payload: number;
  readonly jetstream?: boolean | { readonly config?: { readonly sync_always?: boolean } };
};

/** @throws Error with the reason and what to do */
export async function preflight(nats: NatsConnection, options: PreflightOptions): Promise<void> {
  const { info } = nats;
  if (info === undefined) throw new Error("no NATS server has introduced itself");
  requireServer(info);
  const { reports, silent } = await reportsOf(nats, options.monitors ?? usualMonitors(nats));
  for (const report of reports) requireServer(report);
  const lazy = reports.find(
    ({ jetstream }) => typeof jetstream !== "object" || jetstream.config?.sync_always !== true,
  );
  if (lazy !== undefined)
    throw new Error(
      `the NATS server ${lazy.server_name} does not sync each message, so it can lose what it has acknowledged when several servers fail at once; write sync_interval: always into the jetstream block of all servers`,
    );
  if (silent.length > 0 && !options.allowUnverifiedSync)
    throw new Error(
      `it is unknown how the NATS servers sync: the system account does not answer, nor does the monitoring at ${silent.join(", ")} (http: 8222 in the configuration, --cluster-monitor here); set sync_interval: always on all servers, and give --allow-unverified-sync`,
    );
  const old = [info, ...reports].find(({ version }) => compareVersions(version, recommendedVersion) < 0);
  if (old !== undefined)
    options.warn?.(
      `nats-server ${old.version} works; ${recommendedVersion} or newer is recommended, because faults are mended there by which a server could lose messages that it had acknowledged`,
    );
}

function requireServer({ server_name: name, version, max_payload: payload, jetstream }: ServerReport): void {
  if (compareVersions(version, leastVersion) < 0)
    throw new Error(
      `the NATS server ${name} has version ${version}; a cluster needs ${leastVersion} or newer, and ${recommendedVersion} is recommended (below 2.10.23 a killed server could lose a stream)`,
    );
  if (
    jetstream === undefined ||
    jetstream === false ||
    (typeof jetstream === "object" && jetstream.config === undefined)
  )
    throw new Error(
      `the NATS server ${name} has no JetStream; add jetstream { store_dir: ..., sync_interval: always } to its configuration`,
    );
  if (payload < payloadMin)
    throw new Error(
      `the NATS server ${name} takes messages of ${payload} bytes; a cluster needs max_payload: 8MB in the configuration of all servers`,
    );
}

const askMs = 1_000;

/** What the servers tell, and the monitoring addresses that do not answer, if all have to be asked there. */
async function reportsOf(
  nats: NatsConnection,
  monitors: readonly string[],
): Promise<{ reports: ServerReport[]; silent: string[] }> {
  const reports: ServerReport[] = [];
  try {
    const answers = await nats.requestMany("$SYS.REQ.SERVER.PING.VARZ", "{}", {
      maxWait: askMs,
      maxMessages: 100,
    });
    for await (const answer of answers) {
      const { data } = answer.json<{ data?: ServerReport }>();
      if (data !== undefined) reports.push(data);
    }
  } catch {
    // Not the system account: monitoring is asked.
  }
  if (reports.length >= serversMin) return { reports, silent: [] };
  const silent: string[] = [];
  for (const url of monitors) {
    try {
      const answer = await fetch(`${url}/varz`, { signal: AbortSignal.timeout(askMs) });
      if (!answer.ok) throw new Error(`${url} answers ${answer.status}`);
      reports.push((await answer.json()) as ServerReport);
    } catch {
      silent.push(url);
    }
  }
  return { reports, silent };
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

/** Where monitoring usually is. */
function usualMonitors(nats: NatsConnection): string[] {
  const servers = [nats.getServer(), ...(nats.info?.connect_urls ?? [])];
  return [...new Set(servers.map((server) => `http://${server.replace(/:\d+$/, "")}:8222`))];
}
