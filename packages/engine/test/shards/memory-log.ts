// A replicated log in memory: several databases of one process are the nodes of a cluster.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deserialize, serialize } from "node:v8";
import type { Database } from "../../src/database/contract.ts";
import { openDatabase } from "../../src/database/database.ts";
import {
  type CallLimits,
  type CatalogEntry,
  collectionIdOf,
  decodeMessage,
  encodeMessage,
  errorOf,
  type LoggedRequest,
  type OrderedMessage,
  type Replica,
  type ReplicatedLog,
  type ShardCall,
  type SharedChange,
  type Written,
} from "../../src/database/replication.ts";
import { randomOpId } from "../../src/log/sequencer.ts";

class Node implements ReplicatedLog {
  readonly node: string;
  readonly shards = 1;
  readonly #log: MemoryLog;
  replica!: Replica;
  /** Messages are applied one after the other. */
  applying: Promise<unknown> = Promise.resolve();

  constructor(log: MemoryLog, node: string) {
    this.#log = log;
    this.node = node;
  }

  /** What the log has for it when it starts. */
  missed: (replica: Replica) => Promise<unknown> = async () => {};

  async start(replica: Replica): Promise<void> {
    this.replica = replica;
    await this.missed(replica);
  }

  write(internalId: string, request: LoggedRequest): Promise<Written> {
    return this.#log.write(this, internalId, request);
  }

  change(change: SharedChange): Promise<void> {
    return this.#log.change(change);
  }

  replicasOf(internalId: string): readonly string[] {
    const number = Number(/-(\d+)$/.exec(internalId)?.[1] ?? 0);
    const { nodes } = this.#log;
    return [nodes[number % nodes.length].node];
  }

  ask(entry: CatalogEntry, call: ShardCall, limits: CallLimits): Promise<unknown> {
    return this.#log.ask(entry, call, limits);
  }

  async stop(): Promise<void> {
    await this.applying.catch(() => undefined);
  }
}

export class MemoryLog {
  readonly nodes: Node[] = [];
  readonly databases: Database[] = [];
  readonly directories: string[] = [];
  #position = 0;
  /** Called before a node applies a message. */
  beforeApply: (node: string) => Promise<void> = async () => {};

  static async open(count: number): Promise<MemoryLog> {
    const log = new MemoryLog();
    for (let i = 0; i < count; i++) log.nodes.push(new Node(log, `n${i}`));
    for (const node of log.nodes) {
      const dataDir = mkdtempSync(join(tmpdir(), "quiver-shards-"));
      log.directories.push(dataDir);
      log.databases.push(await openDatabase({ dataDir, replication: node }));
    }
    return log;
  }

  /** Closes a database, and opens it again. */
  async reopen(number: number): Promise<void> {
    await this.databases[number].close();
    const { [number]: dataDir } = this.directories;
    this.databases[number] = await openDatabase({ dataDir, replication: this.nodes[number] });
  }

  async write(from: Node, internalId: string, request: LoggedRequest): Promise<Written> {
    const opId = randomOpId();
    const bytes = encodeMessage({ epoch: 0, timeMs: Date.now(), opId, requests: [request] });
    const message: OrderedMessage = { ...decodeMessage(bytes), position: ++this.#position };
    let written: Promise<Written> | undefined;
    for (const node of this.nodes) {
      const apply = async () => {
        await this.beforeApply(node.node);
        let own: Written | undefined;
        for (const entry of node.replica.entries()) {
          if (collectionIdOf(entry.internalId) !== collectionIdOf(internalId)) continue;
          if (!node.replica.serves(entry.internalId)) continue;
          const isOwn = node === from && entry.internalId === internalId;
          const [applied] = await node.replica.apply(entry.internalId, [message], () => isOwn);
          const outcome = applied.outcomes?.[0];
          if (!isOwn || outcome === undefined) continue;
          if (!outcome.ok) throw errorOf(outcome.error);
          own = { version: outcome.version, value: outcome.value };
        }
        return own as Written;
      };
      const applied = node.applying.then(apply);
      node.applying = applied.catch(() => undefined);
      if (node === from) written = applied;
    }
    return written as Promise<Written>;
  }

  async change(change: SharedChange): Promise<void> {
    const position = ++this.#position;
    for (const { replica } of this.nodes) {
      if (replica === undefined) continue;
      const applied = await replica.applyChange(position, randomOpId(), 1, change);
      if (applied?.ok === false) throw applied.error;
    }
    await this.#heal();
  }

  /** What a node should have and has not, it copies from another. */
  async #heal(): Promise<void> {
    for (const { node, replica } of this.nodes)
      for (const { internalId, replicas } of replica?.entries() ?? []) {
        if (replicas?.includes(node) !== true || replica.serves(internalId)) continue;
        const other = this.nodes.find((each) => each.replica.serves(internalId));
        if (other !== undefined) await replica.receive(internalId, await other.replica.copyOf(internalId));
      }
  }

  async ask(entry: CatalogEntry, call: ShardCall, limits: CallLimits): Promise<unknown> {
    const node = this.nodes.find(({ replica }) => replica.serves(entry.internalId));
    if (node === undefined) throw new Error(`no node serves ${entry.internalId}`);
    // As over a network.
    return deserialize(
      serialize(await node.replica.answer(entry.internalId, deserialize(serialize(call)), limits)),
    );
  }

  /** Resolves when all nodes have applied what was written. */
  async settled(): Promise<void> {
    await Promise.all(this.nodes.map(({ applying }) => applying));
  }

  async close(): Promise<void> {
    await Promise.all(this.databases.map((database) => database.close()));
    for (const directory of this.directories) rmSync(directory, { recursive: true, force: true });
  }
}
