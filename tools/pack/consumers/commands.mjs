// Everything that the installed command does with a server, and what it says of the rest: node commands.mjs URL KEY

import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";

const [url, key] = process.argv.slice(2);
const env = { ...process.env, QUIVER_URL: url, QUIVER_API_KEY: key };
const start = (args) =>
  spawnSync(process.execPath, ["node_modules/quiverdb/dist/main.js", ...args], { env, encoding: "utf8" });

function quiver(...args) {
  const { status, stdout, stderr } = start(args);
  if (status !== 0) throw new Error(`quiver ${args.join(" ")} ended with ${status}: ${stderr}`);
  return stdout;
}

writeFileSync(
  "films.jsonl",
  '{"id":"dune","dense_values":[1,0],"text":"A desert planet","metadata":{"n":1}}\n',
);
writeFileSync("films.csv", "id,text,n\nemma,A matchmaker,2\nsolaris,A thinking planet,3\n");
quiver("collections", "create", "films", "--dimension", "2", "--text", "--store-raw-text");
quiver("index", "create", "films", "dense");
quiver("index", "create", "films", "text");
quiver("index", "analyze", "films", "thinking planets");
quiver("import", "films", "films.jsonl");
quiver("import", "films", "films.csv", "--transaction");
const { results } = JSON.parse(quiver("search", "films", "--text", "planet", "--vector", "[1,0]", "--json"));
const count = quiver("count", "films", "--where", "n >= 2").trim();
const { text } = JSON.parse(quiver("get", "films", "solaris"));
quiver("export", "films", "--output", "films.jsonl.gz");
quiver("backup", "films", "--output", "films.qbackup");
quiver("restore", "films.qbackup", "--as", "again");
quiver("delete", "films", "--where", "n >= 2", "--yes");
const left = quiver("count", "films").trim();
const restored = quiver("count", "again").trim();
quiver("versions", "films");
quiver("transactions", "films");
quiver("collections", "unload", "films");
quiver("keys", "create", "label", "--role", "read");
const keys = quiver("keys", "list").trim().split("\n").length;
quiver("keys", "revoke", quiver("keys", "list").split("\t")[0]);
quiver("audit");
quiver("check", "--url", url);
for (const name of ["films", "again"]) quiver("collections", "delete", name, "--yes");

// These open a directory themselves.
const needsNewer = /^quiver: .+ needs Node\.js 24 or newer; this is 2\d/;
const inProcess = [
  ["serve"],
  ["check", "."],
  ["repair", ".", "--into", "new"],
  ["count", "x", "--data-dir", "."],
];
const refused = inProcess.map((args) => start(args)).filter(({ stderr }) => needsNewer.test(stderr));

console.log(
  [
    results.map(({ id }) => id).join("+"),
    `${count} of them: ${text}`,
    `${left} left, ${restored} restored`,
    `${keys} key`,
    `${refused.length} refused`,
  ].join(", "),
);
