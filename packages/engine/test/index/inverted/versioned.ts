// How do tests keep versions of an index readable while it changes?
//
// As the engine does (views/view.ts): each publication is an epoch, a record is removed when no pinned version sees it, and what is
// retired is freed when no epoch is pinned that began before.

import { MessageChannel, receiveMessageOnPort } from "node:worker_threads";
import { EpochReader, Epochs } from "../../../src/base/epochs.ts";
import { invariant } from "../../../src/base/invariant.ts";
import type { Index, Visible } from "../../../src/index/contract.ts";

/** A version that a test has published. */
export type Published = {
  readonly epoch: number;
  readonly version: number;
  readonly ordinalEnd: number;
  readonly visible: NonNullable<Visible>;
};

export class Versioned<Held extends Index> {
  readonly epochs = new Epochs(2);
  /** Of what was closed: by which version. Nothing is taken out. */
  readonly died = new Map<number, number>();
  readonly live = new Set<number>();
  readonly index: Held;
  ordinalEnd = 0;
  version = 0;
  readonly #pins = new EpochReader(this.epochs.shared, 1);
  readonly #published = new Map<number, number>();
  /** Closed, and not removed from the index. */
  readonly #closed = new Set<number>();

  constructor(make: (retire: (free: () => void) => void) => Held) {
    this.index = make((free) => this.epochs.retire(free));
  }

  /** The ordinal of a record that is added now. @param gap ordinals that are left out */
  next(gap = 0): number {
    const ordinal = this.ordinalEnd + gap;
    this.ordinalEnd = ordinal + 1;
    this.live.add(ordinal);
    return ordinal;
  }

  /** Closes a record in the version that is published next. */
  close(ordinal: number): void {
    this.live.delete(ordinal);
    this.died.set(ordinal, this.version + 1);
    this.#closed.add(ordinal);
    this.index.retire(ordinal);
  }

  /** Publishes a version, and pins it. */
  publish(): Published {
    const version = ++this.version;
    const epoch = this.epochs.advance();
    invariant(this.#pins.tryPin(epoch), "the epoch that begins cannot be pinned");
    this.#published.set(epoch, version);
    const { ordinalEnd, died } = this;
    const visible = (ordinal: number) =>
      ordinal < ordinalEnd && version < (died.get(ordinal) ?? Number.POSITIVE_INFINITY);
    return { epoch, version, ordinalEnd, visible };
  }

  release({ epoch }: Published): void {
    this.#pins.unpin(epoch);
    this.#published.delete(epoch);
  }

  /** Removes what no pinned version sees, at most so many, and frees what no pinned epoch reaches. */
  reclaim(most = Number.POSITIVE_INFINITY): void {
    const oldest = Math.min(this.version, ...this.#published.values());
    let left = most;
    for (const ordinal of this.#closed) {
      if ((this.died.get(ordinal) as number) > oldest || left-- <= 0) continue;
      this.#closed.delete(ordinal);
      this.index.remove(ordinal);
    }
    this.epochs.reclaim();
  }
}

/** A message as another thread would receive it. */
export function posted<T>(message: T): T {
  const { port1, port2 } = new MessageChannel();
  port1.postMessage(message);
  const received = receiveMessageOnPort(port2);
  port1.close();
  invariant(received !== undefined, "a message was not received");
  return received.message as T;
}
