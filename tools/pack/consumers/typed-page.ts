// Compiled with the libraries that a page has by default: none of them knows disposable values.

import { connect, type SearchResponse } from "@quiverdb/client";

export async function search(): Promise<SearchResponse> {
  const database = connect(new URL("https://example.org"), { apiKey: "key" });
  const transaction = await database.collection("pages").transaction();
  await transaction.commit();
  return database.collection("pages").search.text({ query: "bees" });
}
