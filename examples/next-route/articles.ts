// Where are the articles, and which model embeds them?
//
// A server by QUIVER_URL and QUIVER_API_KEY; any OpenAI-compatible endpoint, by default Ollama on this machine.

import {
  connect,
  ensureTexts,
  openAiEmbeddings,
  type TextCollection,
  withEmbeddings,
} from "@quiverdb/client";

export type Article = { year: number };

const {
  QUIVER_URL: url = "http://127.0.0.1:8443",
  QUIVER_API_KEY: apiKey,
  OPENAI_BASE_URL: modelUrl = "http://127.0.0.1:11434/v1",
  OPENAI_API_KEY: modelKey,
  EMBEDDING_MODEL: model = "nomic-embed-text",
} = process.env;

const embed = openAiEmbeddings({ url: modelUrl, apiKey: modelKey, model });
let opened: Promise<TextCollection<Article>> | undefined;

/** The collection, which is made by the first request that needs it. */
export function articles(): Promise<TextCollection<Article>> {
  const dimension = async () => (await embed(["dimension"]))[0].length;
  opened ??= ensureTexts<Article>(connect(url, { apiKey }), "articles", { dimension }).then((collection) =>
    withEmbeddings(collection, embed),
  );
  // A server that was not there is asked again by the next request.
  opened.catch(() => {
    opened = undefined;
  });
  return opened;
}
