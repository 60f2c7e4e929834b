// What is written down without anybody waiting for it, and when is it all there?

/** Writes whose failure is logged, for nothing acknowledged depends on them. */
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

  /** Resolves when nothing is being written any more. */
  async settled(): Promise<void> {
    await Promise.all(this.#writes);
  }
}
