// With every Node.js: node client.mjs URL KEY

import { connect } from "@quiverdb/client";
import { steps } from "./steps.mjs";

const [url, apiKey] = process.argv.slice(2);
console.log(await steps(connect(url, { apiKey }), `node-${process.versions.node}`));
