// How do texts become vectors, many at a time?
//
//   texts --without repetitions--> cache --those that it lacks--> batches --embed, at most `concurrency` at once--> vectors
//
// An embedding is a function of the caller, or of an adapter (openai-embeddings.ts, transformers-embeddings.ts). `embedder` adds to any such
// function what all of them need. The result has a vector for each text, in the order of the texts, or the call throws: there is no partial
// result. When it throws, no call of the function is in progress.

import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import { kindOf } from "@quiverdb/protocol/kind-of";
import { systemCode } from "./answer.ts";
import type { EmbeddingCache } from "./embedding-cache.ts";
import type { DenseValues } from "./record.ts";
import { type Runtime, retryDelayMs, systemRuntime } from "./transport.ts";

/**
 * Makes a vector of each text, in the order of the texts.
 *
 * @example
 * ```ts no-run
 * import type { Embed } from "@quiverdb/client";
 * declare const model: { vectorsOf(texts: string[]): Promise<Float32Array[]> };
 * const embed: Embed = (texts) => model.vectorsOf(texts);
 * ```
 */
export type Embed = (texts: string[], options?: EmbedOptions) => Promise<readonly DenseValues[]>;

/** What an embedding function gets besides the texts. */
export type EmbedOptions = {
  /** Aborts the call, which then throws the signal's reason. */
  signal?: AbortSignal;
};

/** How an embedding function is called: batches, concurrency, retries, a cache. */
export type EmbedderOptions = {
  /** Maximum number of texts in one call of the function. Default 64. */
  batchTexts?: number;
  /** Maximum number of UTF-16 characters in one call; a longer text goes alone. Default 200,000. */
  batchCharacters?: number;
  /** Number of concurrent calls of the function. Default 2. */
  concurrency?: number;
  /** Maximum number of retries of one call of the function. Default 4. */
  retries?: number;
  /**
   * Whether the same call may succeed later. Default: for an error with `retryable: true`, with a `status` of 408, 409, 429 or at least 500,
   * or with the code of a broken connection.
   */
  isRetryable?: (error: unknown) => boolean;
  /** Called before each retry. */
  onRetry?: (event: { retry: number; delayMs: number; error: unknown }) => void;
  /** Vectors of earlier texts. Default: none. A cache belongs to one model. */
  cache?: EmbeddingCache | null;
  /** Sources of time and randomness; tests replace them. */
  runtime?: Partial<Runtime>;
};

export const embedderOptions: readonly (keyof EmbedderOptions)[] = [
  "batchTexts",
  "batchCharacters",
  "concurrency",
  "retries",
  "isRetryable",
  "onRetry",
  "cache",
  "runtime",
];

const defaults = { batchTexts: 64, batchCharacters: 200_000, concurrency: 2, retries: 4 } as const;
/** An endpoint that asks for a longer pause is not called again. */
const pauseMaxMs = 60_000;
const retryableStatuses = new Set([408, 409, 429]);

/**
 * The same function with batches, concurrent calls, retries and a cache. Equal texts of a call are embedded once.
 *
 * @example
 * ```ts no-run
 * import { type Embed, embedder, memoryCache } from "@quiverdb/client";
 * declare const embed: Embed;
 * const patient = embedder(embed, { batchTexts: 32, concurrency: 4, cache: memoryCache({ textsMax: 50_000 }) });
 * const [vector] = await patient(["how do bees navigate"]);
 * ```
 * @throws QuiverError unknown_field or invalid_request for wrong options; the function's own error after the last retry; embedding_failed if
 *   it returns anything but a vector for each text
 */
export function embedder(embed: Embed, options: EmbedderOptions = {}): Embed {
  refuseUnknownOptions(options, embedderOptions);
  const { batchTexts, batchCharacters, concurrency, retries } = { ...defaults, ...defined(options) };
  for (const [name, value, min] of [
    ["batchTexts", batchTexts, 1],
    ["batchCharacters", batchCharacters, 1],
    ["concurrency", concurrency, 1],
    ["retries", retries, 0],
  ] as const)
    atLeast(name, value, min);
  const { cache, onRetry, isRetryable = mayPass } = options;
  const runtime = { ...systemRuntime, ...options.runtime };

  /** One call of the function, repeated while that may help. */
  async function attempt(texts: string[], signal: AbortSignal): Promise<readonly DenseValues[]> {
    for (let retry = 1; ; retry++) {
      try {
        signal.throwIfAborted();
        return checked(await embed(texts, { signal }), texts.length);
      } catch (error) {
        signal.throwIfAborted();
        const pauseMs = pauseAskedBy(error);
        if (retry > retries || !isRetryable(error) || pauseMs > pauseMaxMs) throw error;
        const delayMs = Math.max(pauseMs, retryDelayMs(retry - 1, runtime));
        onRetry?.({ retry, delayMs, error });
        await runtime.sleep(delayMs, signal);
      }
    }
  }

  return async (texts, { signal } = {}) => {
    signal?.throwIfAborted();
    const distinct = [...new Set(texts)];
    const vectors = new Map<string, DenseValues>();
    const cached = (await cache?.get(distinct)) ?? [];
    distinct.forEach((text, i) => {
      const vector = cached[i];
      if (vector !== undefined) vectors.set(text, vector);
    });
    const missing = distinct.filter((text) => !vectors.has(text));
    const batches = batchesOf(missing, batchTexts, batchCharacters);
    await inParallel(batches, concurrency, signal, async (batch, stop) => {
      const made = await attempt(batch, stop);
      const entries = batch.map((text, i) => [text, made[i]] as const);
      for (const [text, vector] of entries) vectors.set(text, vector);
      await cache?.set(entries);
    });
    return texts.map((text) => vectors.get(text) as DenseValues);
  };
}

function batchesOf(texts: readonly string[], textsMax: number, charactersMax: number): string[][] {
  const batches: string[][] = [];
  let characters = 0;
  for (const text of texts) {
    const last = batches.at(-1);
    if (last === undefined || last.length >= textsMax || characters + text.length > charactersMax) {
      batches.push([text]);
      characters = text.length;
    } else {
      last.push(text);
      characters += text.length;
    }
  }
  return batches;
}

/** Works on items, at most `concurrency` at once. The first failure stops the others, and is thrown when all have ended. */
async function inParallel<Item>(
  items: readonly Item[],
  concurrency: number,
  signal: AbortSignal | undefined,
  work: (item: Item, stop: AbortSignal) => Promise<void>,
): Promise<void> {
  const failed = new AbortController();
  const stop = signal === undefined ? failed.signal : AbortSignal.any([signal, failed.signal]);
  let failure: { error: unknown } | undefined;
  const queue = items.values();
  const worker = async () => {
    for (const item of queue) {
      if (failure !== undefined) return;
      try {
        await work(item, stop);
      } catch (error) {
        failure ??= { error };
        failed.abort(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, worker));
  if (failure !== undefined) throw failure.error;
}

/** Vectors as a function returned them. @throws QuiverError embedding_failed unless there is one for each text, all of one length */
function checked(vectors: readonly DenseValues[], texts: number): readonly DenseValues[] {
  const wrong = (what: string) =>
    new QuiverError("embedding_failed", `The embedding returned ${what} for ${texts} texts.`, { texts });
  if (!Array.isArray(vectors)) throw wrong(kindOf(vectors));
  if (vectors.length !== texts) throw wrong(`${vectors.length} vectors`);
  let dimension: number | undefined;
  for (const [i, vector] of (vectors as readonly unknown[]).entries()) {
    if (!Array.isArray(vector) && !(vector instanceof Float32Array) && !(vector instanceof Float64Array))
      throw wrong(`${kindOf(vector)} in the place of vector ${i}`);
    dimension ??= vector.length;
    if (vector.length === 0 || vector.length !== dimension)
      throw wrong(`vectors with ${dimension} and ${vector.length} values`);
  }
  return vectors;
}

/** Whether what failed with this error may succeed when it is repeated. */
export function mayPass(error: unknown): boolean {
  const { status, retryable } = (error ?? {}) as { status?: unknown; retryable?: unknown };
  if (retryable === true) return true;
  if (typeof status === "number" && status !== 0) return retryableStatuses.has(status) || status >= 500;
  // A `QuiverError` has a code of its own, which is no code of a connection.
  return !isQuiverError(error) && systemCode(error) !== undefined;
}

/** Milliseconds that an endpoint asked to wait for. */
function pauseAskedBy(error: unknown): number {
  const asked = isQuiverError(error) ? error.details.retry_after_ms : undefined;
  return typeof asked === "number" ? asked : 0;
}

function atLeast(name: string, value: number, min: number): void {
  if (Number.isInteger(value) && value >= min) return;
  throw new QuiverError(
    "invalid_request",
    `${name} is ${value}, expected a whole number of at least ${min}.`,
  );
}

/** Options that have a value: `undefined` means the default. */
function defined<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T;
}
