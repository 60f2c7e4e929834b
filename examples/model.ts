// Which model do the examples use?
//
// Any OpenAI-compatible endpoint. By default that is Ollama on this machine: `ollama pull nomic-embed-text`, and for rag.ts `ollama pull
// llama3.2`.

import { type Embed, openAiEmbeddings } from "@quiverdb/client";

const {
  OPENAI_BASE_URL: url = "http://127.0.0.1:11434/v1",
  OPENAI_API_KEY: apiKey,
  EMBEDDING_MODEL: embeddingModel = "nomic-embed-text",
  CHAT_MODEL: chatModel = "llama3.2",
} = process.env;

export const embed: Embed = openAiEmbeddings({ url, apiKey, model: embeddingModel });

/** The model's answer to a question. @param system what it shall do */
export async function chat(system: string, question: string): Promise<string> {
  const response = await fetch(`${url}/chat/completions`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
    },
    body: JSON.stringify({
      model: chatModel,
      messages: [
        { role: "system", content: system },
        { role: "user", content: question },
      ],
    }),
  });
  if (!response.ok)
    throw new Error(`The chat model answered with status ${response.status}: ${await response.text()}`);
  const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
  return choices[0].message.content;
}
