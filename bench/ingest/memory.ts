// What does the memory of a server consist of while and after records are written?
//
//   npm run bench:memory [-- --records 50000 --dimension 768 --per 500 --form base64]
//
// A server with one dense index gets the records by one client. Its memory is read from /proc (Linux): before, at its most during the load,
// when the indexes are complete, and after a restart. It is compared with what `status` tells of the index.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { adminKey, clientOf, type MeasuredServer, startQuiver } from "../rest/measured-server.ts";
import { untilQuiet } from "../shared/quiet.ts";
import { head, line } from "../shared/report.ts";
import { forms, vectorsOf } from "./bodies.ts";

const { values } = parseArgs({
  options: {
    records: { type: "string", default: "50000" },
    dimension: { type: "string", default: "768" },
    per: { type: "string", default: "500" },
    form: { type: "string", default: "JSON, base64" },
    index: { type: "boolean", default: true },
  },
  allowNegative: true,
});
const [records, dimension, per] = [values.records, values.dimension, values.per].map(Number);
const form = forms.find(({ title }) => title === values.form);
if (form === undefined)
  throw new Error(`no form '${values.form}'; there are ${forms.map(({ title }) => title)}`);

const megabyte = 1e6;

/** Bytes of a process, by what they are. */
type Parts = {
  /** Heaps of V8 of all threads, buffers, what malloc holds. */
  anonymous: number;
  /** Memories that threads share: WebAssembly memories and shared arrays. */
  shared: number;
  /** Pages of the stores' files, which the system takes back when it needs them. */
  stores: number;
  /** Pages of the program and its libraries. */
  program: number;
};

function partsOf(pid: number): Parts {
  const parts: Parts = { anonymous: 0, shared: 0, stores: 0, program: 0 };
  let path = "";
  for (const each of readFileSync(`/proc/${pid}/smaps`, "utf8").split("\n")) {
    const mapping = /^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+\s*(.*)$/.exec(each);
    if (mapping) path = mapping[1];
    const [, name, kilobytes] = /^(Rss|Anonymous):\s+(\d+) kB/.exec(each) ?? [];
    if (name === undefined) continue;
    const bytes = Number(kilobytes) * 1024;
    const isFile = path.startsWith("/") && !path.startsWith("/dev/zero") && !path.startsWith("/memfd");
    const place = path.endsWith("data.mdb") ? "stores" : "program";
    if (name === "Rss") {
      if (isFile) parts[place] += bytes;
      else parts.anonymous += bytes;
    } else if (isFile) {
      parts[place] -= bytes;
      parts.anonymous += bytes;
    }
  }
  const shmem = Number(/RssShmem:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;
  return { ...parts, anonymous: parts.anonymous - shmem, shared: shmem };
}

const sum = ({ anonymous, shared }: Parts): number => anonymous + shared;

type Row = { when: string; parts: Parts; heapUsed: number; external: number; told: number };

async function rowOf(when: string, server: MeasuredServer, parts = partsOf(server.pid)): Promise<Row> {
  const headers = { authorization: `Bearer ${adminKey}` };
  const text = await (await fetch(`${server.url}/metrics`, { headers })).text();
  const metric = (name: string): number =>
    Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)`, "m").exec(text)?.[1] ?? Number.NaN);
  return {
    when,
    parts,
    heapUsed: metric("nodejs_heap_size_used_bytes"),
    external: metric("nodejs_external_memory_bytes"),
    told: metric("quiver_memory_index_bytes"),
  };
}

const dataDir = mkdtempSync(join(tmpdir(), "quiver-bench-memory-"));
let server = await startQuiver(dataDir);
let client = clientOf(server.url);
try {
  const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
  await client.send(
    "/vectordb/collections",
    json({
      name: "memory",
      dense_vector: { enabled: true, dimension, auto_create_index: values.index },
      sparse_vector: { enabled: false },
      tf_idf_options: { enabled: false },
      config: {},
    }),
  );
  const vectors = vectorsOf(Math.min(records, 10_000), dimension);
  await sleep(2_000);
  const rows = [await rowOf("empty", server)];
  let most = rows[0].parts;
  for (let from = 0; from < records; from += per) {
    const part = Array.from({ length: per }, (_, i) =>
      vectors[(from + i) % vectors.length].map((x) => x + (from + i) / records),
    );
    await client.send(
      "/vectordb/collections/memory/streaming/upsert",
      form.body(from, part),
      form.contentType,
    );
    const now = partsOf(server.pid);
    if (sum(now) > sum(most)) most = now;
  }
  rows.push(await rowOf("at its most while records come", server, most));
  rows.push(await rowOf("all records came", server));
  const watch = setInterval(() => {
    const now = partsOf(server.pid);
    if (sum(now) > sum(most)) most = now;
  }, 500);
  await untilQuiet(server.cpuMs, 60);
  clearInterval(watch);
  rows.push(await rowOf("at its most until the index is complete", server, most));
  rows.push(await rowOf("index complete", server));
  client.end();
  await server.end();
  server = await startQuiver(dataDir);
  client = clientOf(server.url);
  await untilQuiet(server.cpuMs, 60);
  rows.push(await rowOf("restarted", server));
  const mb = (bytes: number): string => (bytes / megabyte).toFixed(0);
  const titles = [
    "",
    "private",
    "shared by threads",
    "heap of the request thread, used",
    "its buffers",
    "stores' pages",
    "program",
    "index, as told",
  ];
  console.log(`${records} x ${dimension}, ${form.title}, MB; vectors ${mb(records * dimension * 4)} MB\n`);
  console.log(head(titles));
  for (const { when, parts, heapUsed, external, told } of rows)
    console.log(
      line([
        when,
        ...[parts.anonymous, parts.shared, heapUsed, external, parts.stores, parts.program, told].map(mb),
      ]),
    );
} finally {
  client.end();
  await server.end();
  rmSync(dataDir, { recursive: true, force: true });
}
