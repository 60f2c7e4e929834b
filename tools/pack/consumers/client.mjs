// With every Node.js, Bun and Deno: node client.mjs URL KEY. The same in a thread of its own.

import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { connect } from "@quiverdb/client";
import { steps } from "./steps.mjs";

const [url, apiKey] = isMainThread ? process.argv.slice(2) : workerData;
const found = await steps(connect(url, { apiKey }), isMainThread ? "program" : "thread");
if (isMainThread) {
  const thread = new Worker(new URL(import.meta.url), { workerData: [url, apiKey] });
  thread.on("message", (text) => console.log(`${found}; ${text}`));
} else parentPort.postMessage(found);
