// What a program does with a database, wherever it is; returns what it has found, as text.

export async function steps(database, name) {
  const books = await database.createCollection({
    name,
    dense_vector: { enabled: true, dimension: 2 },
    tf_idf_options: { enabled: true },
    store_raw_text: true,
  });
  await books.createDenseIndex({ distance_metric_type: "cosine" });
  await books.createTextIndex();
  await books.upsert([
    { id: "dune", dense_values: [0.9, 0.1], text: "A desert planet", metadata: { year: 1965 } },
    { id: "emma", dense_values: new Float32Array([0.1, 0.9]), text: "A matchmaker" },
  ]);
  const transaction = await books.transaction();
  await transaction.upsert({ id: "solaris", dense_values: [0.8, 0.2], text: "A thinking planet" });
  await transaction.commit({ waitForIndex: true });
  await books.waitForIndex();
  const near = await books.search.dense({ query_vector: [1, 0], top_k: 1 });
  const text = await books.search.text({ query: "thinking planets", top_k: 1 });
  const filtered = await books.search.hybrid({
    query_vector: [1, 0],
    query_text: "planet",
    filter: { year: { gt: 1900 } },
  });
  const lines = [];
  for await (const line of books.export()) lines.push(JSON.parse(line).id);
  const ids = ({ results }) => results.map(({ id }) => id).join("+");
  const missing = await books.get("none").catch((error) => `${error.name} ${error.code} ${error.status}`);
  await books.drop();
  return [ids(near), ids(text), ids(filtered), lines.join("+"), missing].join(", ");
}
