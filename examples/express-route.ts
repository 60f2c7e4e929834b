// A search route of an Express application, with the database of a server:
//
//   QUIVER_URL=http://127.0.0.1:8443 QUIVER_API_KEY=... PORT=3000 node examples/express-route.ts
//   curl "http://127.0.0.1:3000/search?q=bees&year=2000"

import type { AddressInfo } from "node:net";
import { connect, ensureTexts, isQuiverError, withEmbeddings } from "@quiverdb/client";
import express, { type ErrorRequestHandler } from "express";
import { embed } from "./model.ts";

type Article = { year: number };

const { QUIVER_URL: url = "http://127.0.0.1:8443", QUIVER_API_KEY: apiKey, PORT = "3000" } = process.env;
const database = connect(url, { apiKey });
const dimension = async () => (await embed(["dimension"]))[0].length;
const articles = withEmbeddings(await ensureTexts<Article>(database, "articles", { dimension }), embed);

const app = express();

app.get("/search", async (request, response) => {
  const { q, year } = request.query;
  if (typeof q !== "string" || q === "") {
    response.status(400).json({ error: "The parameter q is missing." });
    return;
  }
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const { where } = articles.collection;
  const filter = typeof year === "string" ? where("year").gte(Number(year)) : null;
  const found = await articles.search.hybrid(
    { query: q, top_k: 10, filter, return_raw_text: true, include: ["metadata"] },
    // A search that nobody waits for is stopped.
    { signal: gone.signal, timeoutMs: 5_000 },
  );
  response.json(found.results.map(({ id, score, text, metadata }) => ({ id, score, text, metadata })));
});

app.put("/articles/:id", express.json(), async (request, response) => {
  const { text, year } = request.body as { text: string; year: number };
  await articles.upsert({ id: request.params.id, text, metadata: { year } });
  response.status(204).end();
});

const onError: ErrorRequestHandler = (error, _request, response, _next) => {
  if (response.headersSent || response.destroyed) return;
  const status = isQuiverError(error) && error.status >= 400 ? error.status : 500;
  response.status(status).json({ error: error instanceof Error ? error.message : String(error) });
};
app.use(onError);

const server = app.listen(Number(PORT), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/search`);
});
process.once("SIGTERM", () => server.close());
