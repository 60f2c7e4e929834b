// How is it known what a log has at this moment?
//
// A message without contents is published into it: what was acknowledged before has a smaller position. To ask a server for the last
// position would be quicker, and wrong: a leader that has lost its majority answers as before.

import type { JetStreamClient, JetStreamManager } from "@nats-io/jetstream";
import { logUnavailable } from "./errors.ts";

/** So many are published before the earlier ones are removed. */
const removedEvery = 1_000;
const timeoutMs = 5_000;

export class LogEnd {
  readonly #jetstream: JetStreamClient;
  readonly #manager: JetStreamManager;
  readonly #stream: string;
  readonly #subject: string;
  #running: Promise<unknown> | undefined;
  /** For all who came after the running one was published. */
  #next: Promise<number> | undefined;
  #published = 0;

  constructor(
    { jetstream, manager }: { jetstream: JetStreamClient; manager: JetStreamManager },
    stream: string,
    subject: string,
  ) {
    this.#jetstream = jetstream;
    this.#manager = manager;
    this.#stream = stream;
    this.#subject = subject;
  }

  /** A position behind all messages that were acknowledged before the call. @throws log_unavailable */
  get(): Promise<number> {
    this.#next ??= this.#afterRunning();
    return this.#next;
  }

  async #afterRunning(): Promise<number> {
    await this.#running?.catch(() => {});
    this.#next = undefined;
    const asked = this.#ask();
    this.#running = asked;
    return asked;
  }

  async #ask(): Promise<number> {
    try {
      const { seq } = await this.#jetstream.publish(this.#subject, undefined, { timeout: timeoutMs });
      if (++this.#published % removedEvery === 0)
        // The next ones do it if this one fails.
        this.#manager.streams.purge(this.#stream, { filter: this.#subject, keep: 1 }).catch(() => {});
      return seq;
    } catch (error) {
      throw logUnavailable((error as Error).message);
    }
  }
}
