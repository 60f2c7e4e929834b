// Semantic search over a folder of Markdown, in one process:
//
//   node examples/markdown-search.ts FOLDER "a question" [DATA-DIRECTORY]

import { open } from "@quiverdb/database";
import { indexFolder } from "./markdown-index.ts";

const [folder, question, directory = "./markdown-data"] = process.argv.slice(2);
if (folder === undefined || question === undefined) {
  console.error('usage: node examples/markdown-search.ts FOLDER "a question" [DATA-DIRECTORY]');
  process.exit(2);
}

await using database = await open(directory);
const { sections, embedded, forgotten } = await indexFolder(database, folder);
console.log(`${embedded} sections embedded, ${forgotten} files forgotten`);

const { results } = await sections.search.hybrid({ query: question, top_k: 5, include: ["metadata"] });
for (const { score, metadata } of results)
  console.log(`${score.toFixed(4)}  ${metadata?.path}: ${metadata?.heading}`);
