// Which writes does no request wait for, and when are they all done?

/** Writes whose failure is only logged, because nothing acknowledged depends on them. */
export class BackgroundWrites {
  readonly #writes = new Set<Promise<void>>();
  readonly #onError: (error: unknown) => void;

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  add(write: Promise<void>): void {
    const settled = write.catch(this.#onError).finally(() => this.#writes.delete(settled));
    this.#writes.add(settled);
  }

  /** Resolves when no write is in progress. */
  async settled(): Promise<void> {
    await Promise.all(this.#writes);
  }
}
