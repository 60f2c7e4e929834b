// Which texts have a vector already?

import { QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import type { DenseValues } from "./record.ts";

/**
 * Keeps vectors by their texts. A cache belongs to one model: in a store that several models share, put the model's name before the text.
 * What it throws ends the call that asked it.
 */
export interface EmbeddingCache {
  /** The vector of each text, in the order of the texts; undefined where there is none. */
  get(
    texts: readonly string[],
  ): readonly (DenseValues | undefined)[] | Promise<readonly (DenseValues | undefined)[]>;
  /** Keeps vectors, for as long as the cache likes. */
  set(entries: readonly (readonly [text: string, vector: DenseValues])[]): void | Promise<void>;
}

const textsMaxDefault = 10_000;

/**
 * A cache in memory, of the texts that were used last. Vectors are kept as 32-bit floats, as the database stores them: 1,536 dimensions
 * take 6 KB a text.
 * @param options `textsMax`: maximum number of texts; default 10,000
 *
 * @example
 * ```ts no-run
 * import { memoryCache, openAiEmbeddings } from "@quiverdb/client";
 * const cache = memoryCache({ textsMax: 1_000 });
 * const embed = openAiEmbeddings({ url: "http://127.0.0.1:11434/v1", model: "nomic-embed-text", cache });
 * ```
 */
export function memoryCache(options: { textsMax?: number } = {}): EmbeddingCache {
  refuseUnknownOptions(options, ["textsMax"]);
  const { textsMax = textsMaxDefault } = options;
  if (!Number.isInteger(textsMax) || textsMax < 1) {
    throw new QuiverError(
      "invalid_request",
      `textsMax is ${textsMax}, expected a whole number of at least 1.`,
    );
  }
  /** In the order of their last use: a Map keeps the order in which keys were added. */
  const vectors = new Map<string, Float32Array>();
  const put = (text: string, vector: Float32Array) => {
    vectors.delete(text);
    vectors.set(text, vector);
  };
  return {
    get: (texts) =>
      texts.map((text) => {
        const vector = vectors.get(text);
        if (vector === undefined) return undefined;
        put(text, vector);
        // A copy, because the caller may change what it gets.
        return vector.slice();
      }),
    set: (entries) => {
      for (const [text, vector] of entries) put(text, Float32Array.from(vector));
      for (const oldest of vectors.keys()) {
        if (vectors.size <= textsMax) break;
        vectors.delete(oldest);
      }
    },
  };
}
