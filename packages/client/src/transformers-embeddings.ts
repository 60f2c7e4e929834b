// How does a model in the same process embed texts, with transformers.js?
//
// `@huggingface/transformers` is an optional peer: it is loaded when the first text is embedded, and nothing else of this package needs it.

import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { refuseUnknownOptions } from "@quiverdb/protocol/fields";
import { type Embed, type EmbedderOptions, embedder, embedderOptions, mayPass } from "./embed.ts";

/** What is used of transformers.js. */
export type TransformersModule = {
  /** Loads a model. */
  pipeline(task: "feature-extraction", model: string, options?: Record<string, unknown>): Promise<unknown>;
};

type Extract = (
  texts: string[],
  options: { pooling: string; normalize: boolean },
) => Promise<{ readonly dims: readonly number[]; readonly data: ArrayLike<number> }>;

/** A model of transformers.js, and how it is run. */
export type TransformersEmbeddingsOptions = EmbedderOptions & {
  /** A model for feature extraction, such as `Xenova/all-MiniLM-L6-v2`, or the path of one. */
  model: string;
  /** How the vectors of a text's tokens become one: as the model's card says. Default "mean". */
  pooling?: "mean" | "cls" | "last_token" | "first_token" | "eos";
  /** Whether vectors get the length 1. Default true. */
  normalize?: boolean;
  /** Options of `pipeline` itself: `dtype`, `device`, `revision`, `cache_dir`. */
  pipelineOptions?: Record<string, unknown>;
  /**
   * Loads the module. A bundler finds it only with `() => import("@huggingface/transformers")` in the program itself. Default: that import,
   * at run time.
   */
  load?: () => Promise<TransformersModule>;
};

const ownOptions: readonly (keyof TransformersEmbeddingsOptions)[] = [
  ...embedderOptions,
  "model",
  "pooling",
  "normalize",
  "pipelineOptions",
  "load",
];

/** In a variable, so that bundlers do not look for a package that need not be there; some see through it, and are told at the import. */
const packageName: string = "@huggingface/transformers";

/**
 * Embeddings of a model in the same process, by transformers.js, with the batches and cache of `embedder`. The model is loaded once, with the
 * first text. Default `concurrency` 1 and `batchTexts` 16, because the model uses all cores.
 *
 * @example
 * ```ts no-run
 * import { transformersEmbeddings } from "@quiverdb/client";
 * const embed = transformersEmbeddings({ model: "Xenova/all-MiniLM-L6-v2", pipelineOptions: { dtype: "q8" } });
 * const [vector] = await embed(["how do bees navigate"]);
 * console.log(vector.length); // 384
 * ```
 * @throws QuiverError embedding_failed if the package is not installed, the model cannot be loaded (the cause is transformers.js' own error),
 *   or it returns anything but a vector for each text
 */
export function transformersEmbeddings(options: TransformersEmbeddingsOptions): Embed {
  refuseUnknownOptions(options, ownOptions);
  const { model, pooling = "mean", normalize = true, pipelineOptions, load = loadPackage, ...rest } = options;
  let loaded: Promise<Extract> | undefined;
  const extractor = () => {
    loaded ??= loadModel(load, model, pipelineOptions);
    // A model whose loading failed is loaded again by the next call.
    loaded.catch(() => {
      loaded = undefined;
    });
    return loaded;
  };
  const embed: Embed = async (texts) => {
    const extract = await extractor();
    const { dims, data } = await extract(texts, { pooling, normalize });
    const [count, dimension] = dims;
    if (dims.length !== 2 || count !== texts.length) {
      throw new QuiverError(
        "embedding_failed",
        `The model ${JSON.stringify(model)} returned a tensor of the shape [${dims.join(", ")}] for ${texts.length} texts, expected [${texts.length}, dimension].`,
        { dims },
      );
    }
    const floats = Float32Array.from(data);
    return texts.map((_, i) => floats.slice(i * dimension, (i + 1) * dimension));
  };
  // The download of a model may break off and succeed when it is repeated.
  const isRetryable = (error: unknown) => mayPass(isOfModel(error) ? error.cause : error);
  return embedder(embed, { concurrency: 1, batchTexts: 16, isRetryable, ...rest });
}

async function loadModel(
  load: () => Promise<TransformersModule>,
  model: string,
  pipelineOptions: Record<string, unknown> | undefined,
): Promise<Extract> {
  try {
    const { pipeline } = await load();
    return (await pipeline("feature-extraction", model, pipelineOptions)) as Extract;
  } catch (cause) {
    if (isQuiverError(cause)) throw cause;
    throw new QuiverError(
      "embedding_failed",
      `The model ${JSON.stringify(model)} cannot be loaded (${cause instanceof Error ? cause.message : String(cause)}). Check its name, and that its files are on this machine or can be downloaded.`,
      { model },
      { cause },
    );
  }
}

/** Whether `loadModel` made the error of one of transformers.js. */
function isOfModel(error: unknown): error is QuiverError {
  return isQuiverError(error, "embedding_failed") && error.details.model !== undefined;
}

async function loadPackage(): Promise<TransformersModule> {
  try {
    return await import(/* @vite-ignore */ /* webpackIgnore: true */ /* turbopackIgnore: true */ packageName);
  } catch (cause) {
    throw new QuiverError(
      "embedding_failed",
      `transformersEmbeddings needs the package ${packageName}, which cannot be loaded (${(cause as Error).message}). Install it: npm install ${packageName}; in a bundle, pass load: () => import("${packageName}").`,
      { package: packageName },
      { cause },
    );
  }
}
