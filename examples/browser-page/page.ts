// A search page that asks the server itself, without a program between:
//
//   npm start -- --cors-origin http://127.0.0.1:5173
//   node tools/launch.mjs exec vite examples/browser-page --host 127.0.0.1
//
// A browser lets a page of one origin read the answers of another only if the server names the page's origin: --cors-origin. Whoever loads
// the page can use the key that is in it, so give it the role read, and the collections that everybody may see:
//
//   npm run quiver -- keys create page --role read --collection articles

import { connect, isQuiverError } from "@quiverdb/client";

type Article = { year: number };

const form = document.querySelector("form") as HTMLFormElement;
const status = document.querySelector("[role=status]") as HTMLElement;
const list = document.querySelector("ol") as HTMLOListElement;
const field = (name: string) => form.elements.namedItem(name) as HTMLInputElement;

/** The search that runs; the next one stops it. */
let running = new AbortController();

async function search(): Promise<void> {
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const query = field("query").value.trim();
  if (query === "") return show("", []);
  const apiKey = field("key").value;
  const database = connect(field("url").value, apiKey === "" ? {} : { apiKey });
  const articles = database.collection<Article>(field("collection").value);
  const year = field("year").value;
  const filter = year === "" ? null : articles.where("year").gte(Number(year));
  try {
    const { results } = await articles.search.text(
      { query, filter, top_k: 10, return_raw_text: true, include: ["metadata"] },
      { signal, timeoutMs: 5_000, retries: 0 },
    );
    show(
      `${results.length} found`,
      results.map(({ id, text, metadata }) => [text ?? id, String(metadata?.year ?? "")]),
    );
  } catch (error) {
    if (signal.aborted) return;
    const hint = ` If the server is running, start it with --cors-origin ${location.origin}.`;
    show(`${(error as Error).message}${isQuiverError(error, "connection_failed") ? hint : ""}`, []);
  }
}

function show(message: string, rows: readonly (readonly [text: string, note: string])[]): void {
  status.textContent = message;
  list.replaceChildren(
    ...rows.map(([text, note]) => {
      const small = document.createElement("small");
      small.textContent = ` ${note}`;
      const item = document.createElement("li");
      item.append(text, small);
      return item;
    }),
  );
}

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", () => void search());
