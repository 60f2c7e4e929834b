// Is anything lost when a node and a server are killed under load?
//
// Clients write to all nodes and remember what was acknowledged. Meanwhile a nats-server, and then a node, are killed and started again. In
// the end every node must have every acknowledged record, and all replicas the same state.

import { setTimeout as delay } from "node:timers/promises";
import type { DevCluster } from "./dev-cluster.ts";

export type KillTestOptions = {
  readonly seconds: number;
  readonly clients: number;
  print(line: string): void;
};

const collection = "kill-test";

/** @returns what is wrong; empty if nothing is */
export async function killTest(cluster: DevCluster, options: KillTestOptions): Promise<string[]> {
  const { print } = options;
  const created = await send(cluster.urls[0], "POST", "/vectordb/collections", {
    name: collection,
    dense_vector: { enabled: true, dimension: 8, auto_create_index: true },
    sparse_vector: { enabled: false },
    tf_idf_options: { enabled: false },
    config: {},
    store_raw_text: false,
  });
  if (created.status !== 201) return [`the collection was not created: ${created.status} ${created.text}`];
  const acknowledged = new Map<string, number>();
  const load = new Load(cluster.urls, acknowledged);
  const running = Array.from({ length: options.clients }, (_, client) => load.write(client));
  const part = (options.seconds * 1_000) / 4;
  await delay(part);
  for (const [what, victim, again] of [
    ["a nats-server", cluster.servers.servers[1], () => cluster.servers.ready()],
    ["a node", cluster.nodes[1], () => cluster.nodes[1].ready()],
  ] as const) {
    print(`killing ${what} (${victim.name}) after ${acknowledged.size} acknowledged records`);
    const before = load.longestGapMs();
    await victim.stop("SIGKILL");
    await delay(part / 2);
    victim.start();
    await again();
    await delay(part / 2);
    print(
      `  ${victim.name} is back; the longest time without an acknowledgement was ${Math.round(Math.max(before, load.longestGapMs()))} ms`,
    );
  }
  load.stop();
  await Promise.all(running);
  print(
    `${acknowledged.size} records were acknowledged, ${load.refused} requests were refused or had no answer`,
  );
  return compare(cluster, acknowledged, print);
}

async function compare(
  cluster: DevCluster,
  acknowledged: ReadonlyMap<string, number>,
  print: (line: string) => void,
): Promise<string[]> {
  const wrong: string[] = [];
  for (const { name, url } of cluster.nodes) {
    let missing = 0;
    const ids = [...acknowledged.keys()];
    for (let from = 0; from < ids.length; from += 500) {
      const part = ids.slice(from, from + 500);
      const { status, text } = await send(
        url,
        "POST",
        `/vectordb/collections/${collection}/vectors/fetch`,
        { ids: part },
        { "x-quiver-consistency": "strict" },
      );
      if (status !== 200) return [...wrong, `${name} answers ${status}: ${text}`];
      const vectors = JSON.parse(text) as ({ dense_values: number[] } | null)[];
      for (const [i, vector] of vectors.entries())
        if (vector?.dense_values[0] !== acknowledged.get(part[i])) missing++;
    }
    print(`${name}: ${ids.length - missing} of ${ids.length} acknowledged records`);
    if (missing > 0) wrong.push(`${name} lacks ${missing} acknowledged records`);
  }
  const { text } = await send(cluster.urls[0], "POST", "/cluster/check");
  const { collections } = JSON.parse(text) as { collections: { name: string; outcome: string }[] };
  for (const { name, outcome } of collections) {
    print(`state of '${name}' on all replicas: ${outcome}`);
    if (outcome !== "equal") wrong.push(`the replicas of '${name}' are ${outcome}`);
  }
  return wrong;
}

class Load {
  readonly #urls: readonly string[];
  readonly #acknowledged: Map<string, number>;
  #isOver = false;
  #lastMs = performance.now();
  #longestMs = 0;
  refused = 0;

  constructor(urls: readonly string[], acknowledged: Map<string, number>) {
    this.#urls = urls;
    this.#acknowledged = acknowledged;
  }

  longestGapMs(): number {
    return Math.max(this.#longestMs, performance.now() - this.#lastMs);
  }

  stop(): void {
    this.#isOver = true;
  }

  async write(client: number): Promise<void> {
    for (let i = 0; !this.#isOver; i++) {
      const id = `c${client}-${i}`;
      const value = client * 1_000 + (i % 1_000);
      const vectors = [{ id, dense_values: [value, 1, 2, 3, 4, 5, 6, 7] }];
      for (let attempt = 0; !this.#isOver; attempt++) {
        const url = this.#urls[(client + i + attempt) % this.#urls.length];
        const answer = await send(url, "POST", `/vectordb/collections/${collection}/streaming/upsert`, {
          vectors,
        }).catch(() => undefined);
        if (answer?.status === 200) {
          const now = performance.now();
          this.#longestMs = Math.max(this.#longestMs, now - this.#lastMs);
          this.#lastMs = now;
          this.#acknowledged.set(id, value);
          break;
        }
        this.refused++;
        await delay(100);
      }
    }
  }
}

async function send(
  url: string,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<{ status: number; text: string }> {
  const answer = await fetch(url + path, {
    method,
    headers: { ...(body !== undefined && { "content-type": "application/json" }), ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(20_000),
  });
  return { status: answer.status, text: await answer.text() };
}
