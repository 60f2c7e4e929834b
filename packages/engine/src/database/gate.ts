// Which calls still use a collection?
//
// The store of a collection may be closed only when nothing reads it. Every call that takes longer than one turn of the event loop passes
// through the gate. Closing the gate rejects new calls and waits for running ones.

import type { QuiverError } from "@quiverdb/protocol/errors";

export class Gate {
  #inside = 0;
  #closedBy: QuiverError | null = null;
  #onEmpty: (() => void) | null = null;

  get count(): number {
    return this.#inside;
  }

  /** @throws why it was closed */
  assertOpen(): void {
    if (this.#closedBy) throw this.#closedBy;
  }

  /** Runs `act`. Rejects with the reason when the gate is closed. */
  async pass<T>(act: () => Promise<T>): Promise<T> {
    this.assertOpen();
    this.#inside++;
    try {
      return await act();
    } finally {
      if (--this.#inside === 0) this.#onEmpty?.();
    }
  }

  close(reason: QuiverError): void {
    this.#closedBy ??= reason;
  }

  /** Resolves when no call is running. */
  async empty(): Promise<void> {
    if (this.#inside === 0) return;
    await new Promise<void>((resolve) => {
      this.#onEmpty = resolve;
    });
  }
}
