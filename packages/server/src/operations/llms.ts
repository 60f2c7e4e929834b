// What does a language model read that is told the address of a server?
//
// /llms.txt (https://llmstxt.org): what this is, how to call it, every operation in a line with the example of its body, and where the rest
// is. It is made of the list of operations, so it is always that of this server.

import { allOperations, type Operation } from "@quiverdb/engine/operations/operations";
import type { FastifyInstance } from "fastify";
import { docsPath } from "./docs.ts";
import { introduction, openapiPaths, tagTexts } from "./openapi.ts";

const options = {
  config: { need: { role: "anyone", collections: "nowhere", takesFilter: true } as const },
  schema: { hide: true } as object,
};

export function registerLlms(app: FastifyInstance): void {
  let text: string | undefined;
  app.get("/llms.txt", options, (_request, reply) => {
    text ??= llmsText();
    return reply.type("text/plain; charset=utf-8").send(text);
  });
}

function llmsText(): string {
  const groups = tagTexts.map(([tag, about]) => {
    const lines = allOperations.filter(([, each]) => each.tag === tag).map(([, each]) => line(each));
    return `**${tag}.** ${about}\n\n${lines.join("\n")}`;
  });
  return `${[
    "# Quiver",
    "> A vector database: this is the address of one of its servers.",
    introduction,
    ...groups,
    `## Reference

- [OpenAPI 3.1](${openapiPaths[0]}): every operation with its fields, limits, examples, answers and errors
- [The same for people](${docsPath}/): to read and to try out`,
  ].join("\n\n")}\n`;
}

function line({ method, path, summary, query, role, examples: [body] }: Operation): string {
  const names = Object.keys(query ?? {});
  const parts = [
    `- \`${method} ${path}\`: ${summary}`,
    ...(role === "anyone" ? ["no key"] : [`role ${role}`]),
    ...(names.length > 0 ? [`query: ${names.join(", ")}`] : []),
    ...(body === undefined ? [] : [`body such as \`${JSON.stringify(body)}\``]),
  ];
  return parts.join("; ");
}
