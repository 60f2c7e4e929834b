// How does an OpenAI-compatible endpoint embed texts?
//
// `POST <url>/embeddings` with `{"model", "input": [texts]}` is answered with `{"data": [{"index", "embedding"}]}`. OpenAI, Azure, Ollama,
// vLLM, llama.cpp, LM Studio, text-embeddings-inference and many others have it.

import { QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import { excerpt, failureOfFetch, parseRetryAfter, quiverError } from "./answer.ts";
import { type Embed, type EmbedderOptions, type EmbedOptions, embedder, embedderOptions } from "./embed.ts";
import type { DenseValues } from "./record.ts";

/** An OpenAI-compatible endpoint, and how it is asked. */
export type OpenAiEmbeddingsOptions = EmbedderOptions & {
  /** What the paths of the endpoint begin with, such as `https://api.openai.com/v1` or `http://127.0.0.1:11434/v1`. */
  url: string | URL;
  /** Sent as `Authorization: Bearer`. Default: none. */
  apiKey?: string;
  model: string;
  /** Dimension of the vectors, for models that can shorten them. */
  dimensions?: number;
  /** Headers to add to every request. */
  headers?: Readonly<Record<string, string>>;
  /** Milliseconds for one request, without its retries. Default 60,000. */
  timeoutMs?: number;
  /** The fetch to use. Default: the global one. */
  fetch?: typeof globalThis.fetch;
};

const ownOptions: readonly (keyof OpenAiEmbeddingsOptions)[] = [
  ...embedderOptions,
  "url",
  "apiKey",
  "model",
  "dimensions",
  "headers",
  "timeoutMs",
  "fetch",
];

const timeoutMsDefault = 60_000;

/**
 * Embeddings of an OpenAI-compatible endpoint, with the batches, retries and cache of `embedder`.
 *
 * @example
 * ```ts no-run
 * import { openAiEmbeddings } from "@quiverdb/client";
 * const embed = openAiEmbeddings({
 *   url: "https://api.openai.com/v1",
 *   apiKey: process.env.OPENAI_API_KEY,
 *   model: "text-embedding-3-small",
 * });
 * const [vector] = await embed(["how do bees navigate"]);
 * ```
 * @throws QuiverError embedding_failed with the status of the answer; connection_failed without one
 */
export function openAiEmbeddings(options: OpenAiEmbeddingsOptions): Embed {
  refuseUnknownOptions(options, ownOptions);
  const {
    url,
    apiKey,
    model,
    dimensions,
    headers,
    timeoutMs = timeoutMsDefault,
    fetch = globalThis.fetch,
    ...rest
  } = options;
  const address = addressOf(url);
  const request = `POST ${address.pathname}`;
  const sent = {
    accept: "application/json",
    "content-type": "application/json",
    ...(apiKey !== undefined && { authorization: `Bearer ${apiKey.trim()}` }),
    ...headers,
  };
  const ask = async (input: string[], { signal }: EmbedOptions = {}): Promise<readonly DenseValues[]> => {
    const ends = AbortSignal.timeout(timeoutMs);
    const body = JSON.stringify({ model, input, encoding_format: "float", dimensions });
    const init = {
      method: "POST",
      headers: sent,
      body,
      signal: signal === undefined ? ends : AbortSignal.any([signal, ends]),
    };
    let response: Response;
    let text: string;
    try {
      response = await fetch(address, init);
      text = await response.text();
    } catch (thrown) {
      signal?.throwIfAborted();
      throw failureOfFetch(thrown, request).error;
    }
    if (response.ok) return vectorsOf(text, request, response.status);
    const retryAfterMs = parseRetryAfter(response.headers.get("retry-after"), Date.now());
    throw quiverError(
      "embedding_failed",
      response.status,
      `${request} of the model ${JSON.stringify(model)} was answered with status ${response.status}: ${messageOf(text)}`,
      { status: response.status, model, ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }) },
    );
  };
  return embedder(ask, rest);
}

function addressOf(url: string | URL): URL {
  if (!URL.canParse(String(url))) {
    throw new QuiverError(
      "invalid_request",
      `The url ${JSON.stringify(String(url))} is not a URL; expected something like https://api.openai.com/v1.`,
    );
  }
  const address = new URL(url);
  address.pathname = `${address.pathname.replace(/\/$/, "")}/embeddings`;
  return address;
}

function vectorsOf(text: string, request: string, status: number): DenseValues[] {
  const wrong = (why: string) =>
    quiverError(
      "embedding_failed",
      status,
      `${request} ${why}: ${excerpt(text)}. Check that the url is that of an OpenAI-compatible endpoint.`,
      { status },
    );
  let data: unknown;
  try {
    data = (JSON.parse(text) as { data?: unknown } | null)?.data;
  } catch {
    throw wrong("was not answered with JSON");
  }
  if (!Array.isArray(data)) throw wrong("was answered without a list called data");
  // The order is that of `index`, where an endpoint gives it.
  const vectors: DenseValues[] = [];
  for (const [i, item] of (data as ({ index?: unknown; embedding?: unknown } | null)[]).entries()) {
    const index = typeof item?.index === "number" ? item.index : i;
    if (!Array.isArray(item?.embedding)) throw wrong("was answered with an embedding that is no list");
    if (!(index >= 0 && index < data.length) || vectors[index] !== undefined)
      throw wrong(`was answered with the index ${index} of ${data.length} embeddings, twice or out of range`);
    vectors[index] = item.embedding;
  }
  return vectors;
}

/** What an endpoint says of its error. */
function messageOf(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown } | string };
    const message = typeof error === "string" ? error : error?.message;
    if (typeof message === "string") return message;
  } catch {
    // Not JSON: the text itself says what is wrong.
  }
  return text === "" ? "no body" : excerpt(text);
}
