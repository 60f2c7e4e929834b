// Which work of a database runs only so many times at once?

import { QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";

export class LimitedWork {
  #exports = 0;
  #isChecking = false;

  /** Begins an export. @param share 1 of a whole collection, less of a shard. @returns its end. @throws overloaded */
  beginExport(share: number): () => void {
    // Shares of shards add up to about whole numbers.
    if (Math.round(1_000 * this.#exports) >= 1_000 * limits.exportsMax)
      throw new QuiverError(
        "overloaded",
        `${Math.round(this.#exports)} exports are running, which is the limit. Send the request again later.`,
        { limit: limits.exportsMax },
      );
    this.#exports += share;
    return () => {
      this.#exports -= share;
    };
  }

  /** Runs a check if no other one is running. @throws overloaded */
  async checkAlone<T>(run: () => Promise<T>): Promise<T> {
    if (this.#isChecking)
      throw new QuiverError(
        "overloaded",
        "Another check is running; only one can run at a time. Try again later.",
      );
    this.#isChecking = true;
    try {
      return await run();
    } finally {
      this.#isChecking = false;
    }
  }
}
