// How do the examples run without a model?
//
// An OpenAI-compatible endpoint on this machine: a text's vector counts its words, and the chat repeats the sources that contain a word of
// the question.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { wordVector } from "../../packages/client/test/word-embeddings.ts";

export type StubModel = AsyncDisposable & {
  /** OPENAI_BASE_URL. */
  readonly url: string;
  /** All texts that were embedded. */
  readonly embedded: string[];
};

export async function stubModel(): Promise<StubModel> {
  const embedded: string[] = [];
  const answer = (path: string, body: { input: string[]; messages: { content: string }[] }) => {
    if (path === "/v1/embeddings") {
      embedded.push(...body.input);
      return { data: body.input.map((text, index) => ({ index, embedding: wordVector(text) })) };
    }
    const [{ content: system }, { content: question }] = body.messages;
    const words = question.toLowerCase().match(/\p{L}{4,}/gu) ?? [];
    const said = system
      .split(/\n\n(?=\[\d+\])/)
      .filter((part) => /^\[\d+\]/.test(part) && words.some((word) => part.toLowerCase().includes(word)));
    return { choices: [{ message: { content: `The sources say: ${said.join(" | ")}` } }] };
  };
  const server = createServer(async (request, response) => {
    const body = (await json(request)) as Parameters<typeof answer>[1];
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(answer(request.url ?? "", body)));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    embedded,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
