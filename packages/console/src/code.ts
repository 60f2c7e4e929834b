// How does a program ask what the console asks?
//
// The key is not written into the code: it is read from QUIVER_API_KEY.

/** A name of a language, and a program in it. */
export type Code = readonly (readonly [language: string, text: string])[];

const begin = () => `import { connect } from "@quiverdb/client";

const client = connect("${location.origin}", { apiKey: process.env.QUIVER_API_KEY });`;

/** In single quotes for a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** @param path of the endpoint, encoded */
const curl = (path: string, body: unknown): string => `curl -sS ${quoted(location.origin + path)} \\
  -H "Authorization: Bearer $QUIVER_API_KEY" -H "Content-Type: application/json" \\
  -d ${quoted(JSON.stringify(body))}`;

const base = "/vectordb/collections";

/** The first steps of a program on this server. */
export const firstCode = (): Code => [
  [
    "TypeScript",
    `${begin()}
const books = await client.createCollection({
  name: "books",
  dense_vector: { enabled: true, dimension: 3 },
  tf_idf_options: { enabled: true },
  store_raw_text: true,
});
await books.createDenseIndex({ distance_metric_type: "cosine" });
await books.createTextIndex();
await books.upsert([
  { id: "dune", dense_values: [0.9, 0.1, 0], text: "A desert planet and its giant worms." },
  { id: "emma", dense_values: [0, 0.2, 0.9], text: "A matchmaker who errs about everyone." },
]);
const { results } = await books.search.hybrid({ query_vector: [1, 0, 0], query_text: "planet" });
console.log(results);`,
  ],
  [
    "curl",
    [
      curl(base, {
        name: "books",
        dense_vector: { enabled: true, dimension: 3 },
        tf_idf_options: { enabled: true },
      }),
      curl(`${base}/books/indexes/dense`, { distance_metric_type: "cosine" }),
      curl(`${base}/books/indexes/tf-idf`, {}),
      curl(`${base}/books/streaming/upsert`, {
        vectors: [{ id: "dune", dense_values: [0.9, 0.1, 0], text: "A desert planet and its giant worms." }],
      }),
      curl(`${base}/books/search/hybrid`, { query_vector: [1, 0, 0], query_text: "planet" }),
    ].join("\n"),
  ],
];

/**
 * One search of a collection.
 * @param method of `collection.search`
 * @param path of its endpoint, encoded
 */
export function searchCode(collection: string, method: string, path: string, request: object): Code {
  const fields = Object.entries(request)
    .filter(([, value]) => value !== undefined)
    .map(([field, value]) => `  ${field}: ${JSON.stringify(value)},\n`);
  const call = `client.collection(${JSON.stringify(collection)}).search.${method}`;
  return [
    [
      "TypeScript",
      `${begin()}\nconst { results } = await ${call}({\n${fields.join("")}});\nconsole.log(results);`,
    ],
    ["curl", curl(path, request)],
  ];
}
