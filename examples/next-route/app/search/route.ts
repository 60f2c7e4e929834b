// GET /search?q=bees&year=2000: articles, from that year on.

import { isQuiverError } from "@quiverdb/client";
import { articles } from "../../articles.ts";

export async function GET(request: Request): Promise<Response> {
  const { searchParams } = new URL(request.url);
  const query = searchParams.get("q");
  const year = searchParams.get("year");
  if (query === null || query === "")
    return Response.json({ error: "The parameter q is missing." }, { status: 400 });
  try {
    const { collection, search } = await articles();
    const filter = year === null ? null : collection.where("year").gte(Number(year));
    const { results } = await search.hybrid(
      { query, top_k: 10, filter, return_raw_text: true, include: ["metadata"] },
      // A search that nobody waits for is stopped.
      { signal: request.signal, timeoutMs: 5_000 },
    );
    return Response.json(results.map(({ id, score, text, metadata }) => ({ id, score, text, metadata })));
  } catch (error) {
    if (!isQuiverError(error)) throw error;
    return Response.json({ error: error.message }, { status: error.status >= 400 ? error.status : 502 });
  }
}
