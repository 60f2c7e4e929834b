// What does the memory of a server consist of while and after records are written?
//
//   npm run bench memory [-- --records 50000 --dimension 768 --per 500 --form base64]
//
// A server with one dense index gets the records by one client. Its memory is read from /proc (Linux): at rest with and without serving
// threads, at its most during the load, when it has rested after it, and after a restart. It is compared with what `status` tells of the
// index, and with Redis and PostgreSQL, which get the same vectors (bench/servers).

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { adminKey, clientOf, type MeasuredServer, startQuiver } from "../rest/measured-server.ts";
import { postgres } from "../servers/kinds/postgres.ts";
import { redis } from "../servers/kinds/redis.ts";
import { cpuMsOf, memoryOf } from "../servers/processes.ts";
import { installRivals } from "../shared/install.ts";
import { readOptions } from "../shared/options.ts";
import { publish } from "../shared/publish.ts";
import { untilQuiet } from "../shared/quiet.ts";
import type { Row as ResultRow } from "../shared/results.ts";
import { forms, vectorsOf } from "./bodies.ts";

const { values, isKept } = readOptions(
  {},
  {
    records: "20000",
    dimension: "384",
    per: "500",
    form: "JSON, numbers",
    index: true,
    beside: true,
  },
);
const [records, dimension, per] = [values.records, values.dimension, values.per].map(Number);
const form = forms.find(({ title }) => title === values.form);
if (form === undefined)
  throw new Error(`no form '${values.form}'; there are ${forms.map(({ title }) => title)}`);

const reason = values.beside ? installRivals() : undefined;
if (reason !== undefined) console.log(reason);

const megabyte = 1e6;
/** What a server may still do after a load, before it is at rest. */
const restMs = 35_000;

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

type Row = {
  when: string;
  resident: number;
  parts: Parts;
  heapUsed: number;
  external: number;
  told: number;
};

const residentOf = (pid: number): number =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;

async function rowOf(when: string, server: MeasuredServer, most?: Most): Promise<Row> {
  const { resident, parts } = most ?? now(server);
  const headers = { authorization: `Bearer ${adminKey}` };
  const text = await (await fetch(`${server.url}/metrics`, { headers })).text();
  const metric = (name: string): number =>
    Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)`, "m").exec(text)?.[1] ?? Number.NaN);
  return {
    when,
    resident,
    parts,
    heapUsed: metric("nodejs_heap_size_used_bytes"),
    external: metric("nodejs_external_memory_bytes"),
    told: metric("quiver_memory_index_bytes"),
  };
}

type Most = Pick<Row, "resident" | "parts">;
const now = ({ pid }: MeasuredServer): Most => ({ resident: residentOf(pid), parts: partsOf(pid) });

/** Memory of a rival at rest, empty and with the vectors. */
async function beside(
  kind: (typeof redis)[number],
  vectors: readonly Float32Array[],
): Promise<ResultRow | string> {
  const shape = { dimension, metric: "cosine", connections: 1 } as const;
  const reason = kind.missing(shape);
  if (reason !== undefined) return `${kind.title}: ${reason}`;
  const rival = await kind.start(shape);
  try {
    const total = () => {
      const { ownBytes, fileBytes } = memoryOf(rival.pid);
      return (ownBytes + fileBytes) / megabyte;
    };
    await sleep(restMs);
    const empty = total();
    for (let from = 0; from < records; from += per)
      await rival.add(
        partOf(vectors, from).map((vector) => ({ vector, u: 0.5 })),
        from,
      );
    await rival.finish();
    await untilQuiet(() => cpuMsOf(rival.pid));
    await sleep(restMs);
    return { server: kind.title, version: kind.version(), emptyMB: empty, withVectorsMB: total() };
  } finally {
    await rival.end();
  }
}

/** The next records' vectors, all different. */
const partOf = (vectors: readonly Float32Array[], from: number): Float32Array[] =>
  Array.from({ length: Math.min(per, records - from) }, (_, i) =>
    vectors[(from + i) % vectors.length].map((x) => x + (from + i) / records),
  );

/** At rest with an empty directory. */
async function emptyRow(when: string, flags: readonly string[]): Promise<Row> {
  const directory = mkdtempSync(join(tmpdir(), "quiver-bench-memory-"));
  const server = await startQuiver(directory, [], flags);
  try {
    await sleep(restMs);
    return await rowOf(when, server);
  } finally {
    await server.end();
    rmSync(directory, { recursive: true, force: true });
  }
}

const rows = [
  await emptyRow("at rest, without serving threads", ["--serving-threads", "0"]),
  await emptyRow("at rest, as it starts", []),
];
const vectors = vectorsOf(Math.min(records, 10_000), dimension);
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
  let most = now(server);
  const watched = () => {
    const seen = now(server);
    if (sum(seen.parts) > sum(most.parts)) most = seen;
  };
  for (let from = 0; from < records; from += per) {
    await client.send(
      "/vectordb/collections/memory/streaming/upsert",
      form.body(from, partOf(vectors, from)),
      form.contentType,
    );
    watched();
  }
  rows.push(await rowOf("at its most while records come", server, most));
  rows.push(await rowOf("all records came", server));
  const watch = setInterval(watched, 500);
  await untilQuiet(server.cpuMs, 60);
  clearInterval(watch);
  rows.push(await rowOf("at its most until the index is complete", server, most));
  rows.push(await rowOf("index complete", server));
  await sleep(restMs);
  rows.push(await rowOf("at rest with it", server));
  client.end();
  await server.end();
  server = await startQuiver(dataDir);
  client = clientOf(server.url);
  await sleep(restMs);
  rows.push(await rowOf("restarted, at rest", server));
  const options = { records, dimension, per, form: form.title, isIndexed: values.index };
  publish(
    "memory",
    {
      key: "quiver",
      title: "What the memory of a server consists of",
      options,
      facts: { vectorsMB: (records * dimension * 4) / megabyte },
      rows: rows.map(({ when, resident, parts, heapUsed, external, told }) => ({
        when,
        residentMB: resident / megabyte,
        privateMB: parts.anonymous / megabyte,
        sharedByThreadsMB: parts.shared / megabyte,
        requestThreadHeapMB: heapUsed / megabyte,
        requestThreadBuffersMB: external / megabyte,
        storesPagesMB: parts.stores / megabyte,
        programMB: parts.program / megabyte,
        indexToldMB: told / megabyte,
      })),
    },
    isKept,
  );
  if (values.beside) {
    const told = [await beside(redis[1], vectors), await beside(postgres, vectors)];
    publish(
      "memory",
      {
        key: "beside",
        title: "Other servers with the same vectors, resident in proportion, at rest",
        options,
        rows: told.filter((each) => typeof each !== "string"),
        leftOut: told.filter((each) => typeof each === "string"),
      },
      isKept,
    );
  }
} finally {
  client.end();
  await server.end();
  rmSync(dataDir, { recursive: true, force: true });
}
