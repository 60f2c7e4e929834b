// Bundled for a browser: posts what it has found, or what went wrong. The page's address has the server's: ?url=...&key=...

import { connect } from "@quiverdb/client";
import { steps } from "./steps.mjs";

const given = new URLSearchParams(location.search);
const found = steps(connect(given.get("url"), { apiKey: given.get("key") }), "browser");
const body = await found.catch((error) => String(error?.stack ?? error));
await fetch("/found", { method: "POST", body });
