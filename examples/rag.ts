// A question about a folder of Markdown, answered by a language model from what the search finds:
//
//   node examples/rag.ts FOLDER "a question" [DATA-DIRECTORY]

import { open } from "@quiverdb/database";
import { indexFolder } from "./markdown-index.ts";
import { chat } from "./model.ts";

const [folder, question, directory = "./markdown-data"] = process.argv.slice(2);
if (folder === undefined || question === undefined) {
  console.error('usage: node examples/rag.ts FOLDER "a question" [DATA-DIRECTORY]');
  process.exit(2);
}

await using database = await open(directory);
const { sections } = await indexFolder(database, folder);
const { results } = await sections.search.hybrid({
  query: question,
  top_k: 5,
  return_raw_text: true,
  include: ["metadata"],
});
const sources = results.map(({ text, metadata }, i) => `[${i + 1}] ${metadata?.path}\n${text}`).join("\n\n");
const task = `Answer only from these sources, and name them by their numbers. If they do not say it, say so.\n\n${sources}`;
console.log(await chat(task, question));
console.log(`\nSources: ${results.map(({ metadata }, i) => `[${i + 1}] ${metadata?.path}`).join(", ")}`);
