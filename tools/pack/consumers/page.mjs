// Bundled for a browser: posts what it has found in the page, and in a worker of the same file, or what went wrong. The address of both has
// the server's: ?url=...&key=...

import { connect } from "@quiverdb/client";
import { steps } from "./steps.mjs";

const isPage = typeof document !== "undefined";
const given = new URLSearchParams(location.search);
const database = connect(given.get("url"), { apiKey: given.get("key") });
const found = await steps(database, isPage ? "page" : "worker").catch((error) =>
  String(error?.stack ?? error),
);
if (isPage) {
  const post = (text) => fetch("/found", { method: "POST", body: `${found}; ${text}` });
  const worker = new Worker(import.meta.url + location.search, { type: "module" });
  worker.onmessage = ({ data }) => post(data);
  worker.onerror = ({ message }) => post(message);
} else postMessage(found);
