// Which serving threads does a server have, and what happens when one dies?
//
// Each takes connections on the same port; the system spreads them. Some start with the server, others when the load needs them (growth.ts);
// a new one gets its share of the connections that there are, because the others close theirs after the next answer. A thread that dies is
// replaced: its connections are lost, and nothing that was acknowledged; the others go on. If threads die again and again, the pauses before
// the next ones grow.

import type { AddressInfo } from "node:net";
import type { EventLoopUtilization } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { CalledThread, type Calls, type Database } from "@quiverdb/engine/database/contract";
import type { SharedLimits } from "../application.ts";
import type { Gate } from "../auth/gate.ts";
import type { CompleteServerConfig } from "../config.ts";
import type { Metric } from "../operations/last-hour.ts";
import type { ServerLog } from "../operations/log.ts";
import type { MetricsOfThread } from "../operations/metrics.ts";
import type { OwnerSocket } from "./forwarding.ts";
import { Growth, idleCoresOfMachine, lookMs } from "./growth.ts";
import type { EnterCall, Lease } from "./leases.ts";
import type { AliasesCall, ListenAnswer, ListenCall, LogCall, ShedCall, ThreadStart } from "./messages.ts";
import { AccountNumbers, clearCounts, newSharedCounts, SharedCounts } from "./shared-counts.ts";

export type PoolParts = {
  readonly config: CompleteServerConfig;
  readonly database: Database;
  readonly gate: Gate;
  readonly log: ServerLog;
  readonly socket: OwnerSocket;
  readonly aliases: { readonly current: ReadonlyMap<string, string> };
};

type Thread = {
  readonly slot: number;
  readonly worker: CalledThread["worker"];
  readonly calls: Calls;
  /** Of its event loop, at the last look. */
  utilization: EventLoopUtilization | undefined;
};

/** The first pause before a thread is replaced, and the longest, in milliseconds; a thread that has lived for the longest one resets it. */
const pauseMs = 100;
const pauseMaxMs = 10_000;

/**
 * Of the heap of a thread: three times what V8 calls a semi-space. By default it grows to four times this, and then V8 marks the old
 * generation after every few requests (docs/decisions/memory.md).
 */
const maxYoungGenerationSizeMb = 24;

export class ServingPool {
  readonly #parts: PoolParts;
  readonly #counts: ReturnType<typeof newSharedCounts>;
  readonly #accounts = new AccountNumbers();
  readonly #threads = new Map<number, Thread>();
  /** What the threads listen on, once the first one does. */
  #listening: ListenCall | undefined;
  #isStopping = false;
  readonly #growth = new Growth();
  #looking: NodeJS.Timeout | undefined;
  /** One more thread is being started. */
  #growing: Promise<void> | undefined;
  readonly #replacing = new Set<Promise<void>>();
  /** For the owner's application. */
  readonly shared: SharedLimits;

  constructor(parts: PoolParts) {
    this.#parts = parts;
    const { servingThreads } = parts.config;
    this.#counts = newSharedCounts(1 + servingThreads);
    // Requests without a key have the first account.
    this.#accounts.of("nobody");
    this.shared = {
      threads: servingThreads,
      countsOf: (limit) => new SharedCounts(this.#counts, limit, 0, (key) => this.#accounts.of(key)),
    };
    const { keys } = parts.gate;
    if (keys !== undefined) keys.onRevoked = (who) => this.#forget(who);
  }

  /** Starts the first threads. @param port 0: a free one @returns where they listen */
  async listen(host: string, port: number, backlog: number): Promise<AddressInfo> {
    const { servingThreads, servingThreadsAtStart = servingThreads } = this.#parts.config;
    const slots = Array.from({ length: Math.min(servingThreads, servingThreadsAtStart) }, (_, i) => i + 1);
    const [first, ...others] = await Promise.all(slots.map((slot) => this.#start(slot)));
    const address = await first.calls.call<ListenAnswer>("listen", { host, port, backlog });
    const listening = { host, port: address.port, backlog };
    this.#listening = listening;
    await Promise.all(others.map(({ calls }) => calls.call("listen", listening)));
    if (slots.length < servingThreads) this.#lookForLoad();
    return address;
  }

  #lookForLoad(): void {
    const { idleCores = idleCoresOfMachine(), servingThreads } = this.#parts.config;
    this.#looking = setInterval(() => {
      const threads = [...this.#threads.values()];
      const busy = threads.map((thread) => {
        const before = thread.utilization;
        thread.utilization = thread.worker.performance.eventLoopUtilization();
        if (before === undefined) return 0;
        return thread.worker.performance.eventLoopUtilization(thread.utilization, before).utilization;
      });
      const look = { busy, connections: this.connections(), idleCores: idleCores() };
      if (this.#growing !== undefined || threads.length >= servingThreads || !this.#growth.isNeeded(look))
        return;
      this.#growing = this.#grow().finally(() => {
        this.#growing = undefined;
      });
    }, lookMs).unref();
  }

  /** Starts one more thread, and lets the others give up its share of their connections. */
  async #grow(): Promise<void> {
    let slot = 1;
    while (this.#threads.has(slot)) slot++;
    const others = [...this.#threads.values()];
    const share = 1 / (others.length + 1);
    try {
      const { calls } = await this.#start(slot);
      await calls.call("listen", this.#listening);
      this.#parts.log.logger.info({ slot }, "one more serving thread takes connections");
      for (const { calls: each } of others) each.tell("shed", { share } satisfies ShedCall);
    } catch (error) {
      this.#parts.log.logger.error({ err: error, slot }, "a further serving thread could not be started");
    }
  }

  /** Resolves when all threads know the aliases. */
  async tellAliases(aliases: ReadonlyMap<string, string>): Promise<void> {
    const told = [...this.#threads.values()].map(({ calls }) =>
      calls.call("aliases", { aliases } satisfies AliasesCall),
    );
    // A thread that dies in this moment is started again with them.
    await Promise.allSettled(told);
  }

  /** Open connections of all threads. */
  connections(): number {
    return new SharedCounts(this.#counts, "connections", 0, () => 0).taken;
  }

  /** What each thread has counted. */
  metrics(): Promise<MetricsOfThread[]> {
    return this.#told("metrics");
  }

  /** What each thread knows of the metrics of the last hour. */
  async lastHour(): Promise<Metric[]> {
    return (await this.#told<Metric[]>("lastHour")).flat();
  }

  async #told<Answer>(what: string): Promise<Answer[]> {
    const asked = [...this.#threads.values()].map(({ calls }) => calls.call<Answer>(what, {}));
    const told = await Promise.allSettled(asked);
    // A thread that dies in this moment has nothing to tell.
    return told.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  }

  /** Resolves when all threads have answered what had arrived, and ended. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    clearInterval(this.#looking);
    await this.#growing;
    await Promise.all(this.#replacing);
    const threads = [...this.#threads.values()];
    await Promise.all(
      threads.map(async ({ calls, worker }) => {
        // One that dies meanwhile is logged where its end is noticed.
        await calls.call("stop", {}).catch(() => undefined);
        await worker.terminate();
      }),
    );
  }

  /** Resolves when no thread lets this caller in. */
  async #forget(who: string): Promise<void> {
    const threads = [...this.#threads.values()];
    // A thread that has died has forgotten all.
    await Promise.all(threads.map(({ calls }) => calls.call("forget", { who }).catch(() => undefined)));
  }

  /** Resolves when the thread can listen. @throws what ended it before */
  async #start(slot: number): Promise<Thread> {
    const { config, database, log, socket } = this.#parts;
    const { clock: _clock, logger: _logger, adminKey: _adminKey, idleCores: _idleCores, ...posted } = config;
    const aliases = this.#parts.aliases.current;
    const start: ThreadStart = { slot, config: posted, socket, counts: this.#counts, aliases };
    const startedMs = performance.now();
    const { worker, calls }: CalledThread = new CalledThread(new URL("./thread.ts", import.meta.url), {
      name: `serving ${slot}`,
      start,
      handlers: {
        ...database.threads.handlers(slot, (payer) => this.#parts.gate.keys?.requireValid(payer)),
        enter: (call: EnterCall) => this.#lease(call),
        log: ({ lines }: LogCall) => log.add(lines),
      },
      resourceLimits: { maxYoungGenerationSizeMb },
      onEnd: (cause) => {
        database.threads.abandon(slot);
        clearCounts(this.#counts, slot);
        if (this.#threads.get(slot)?.calls === calls) this.#threads.delete(slot);
        if (!this.#isStopping && this.#listening !== undefined)
          this.#replace(slot, cause, performance.now() - startedMs);
        return cause;
      },
    });
    database.threads.admit(slot, calls);
    const thread: Thread = { slot, worker, calls, utilization: undefined };
    this.#threads.set(slot, thread);
    await calls.call("ready", {});
    return thread;
  }

  #pauseMs = pauseMs;

  #replace(slot: number, reason: Error, livedMs: number): void {
    if (livedMs > pauseMaxMs) this.#pauseMs = pauseMs;
    const waitMs = this.#pauseMs;
    this.#pauseMs = Math.min(pauseMaxMs, 2 * this.#pauseMs);
    this.#parts.log.logger.error(
      { err: reason, slot, wait_ms: waitMs },
      "a serving thread has died; another one replaces it",
    );
    const replacing = this.#startAgain(slot, waitMs).finally(() => this.#replacing.delete(replacing));
    this.#replacing.add(replacing);
  }

  async #startAgain(slot: number, waitMs: number): Promise<void> {
    await sleep(waitMs);
    if (this.#isStopping) return;
    try {
      const { calls } = await this.#start(slot);
      await calls.call("listen", this.#listening);
    } catch (error) {
      // One that ended before it listened is replaced by the next one; one that cannot listen is ended, so that it is replaced.
      this.#parts.log.logger.error({ err: error, slot }, "a serving thread could not be started");
      await this.#threads.get(slot)?.worker.terminate();
    }
  }

  async #lease({ headers, address }: EnterCall): Promise<Lease> {
    const access = await this.#parts.gate.enter(headers, address);
    const { who, role, collections, weight, filter, expiresAtMs, payer } = access;
    return { who, role, collections, weight, filter, expiresAtMs, account: this.#accounts.of(payer) };
  }
}
