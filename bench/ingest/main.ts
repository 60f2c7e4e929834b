// What does it cost the server to make records durable, and how much space do they take?
//
//   npm run bench ingest [-- --records 10000 --dimension 768 --per 500 --rounds 3 --clients 64 --small 6400 --write]
//
// One server in its own process. For each form of a body, a client writes all records into a new collection without an index, one request
// after the other, with and without a transaction; JSON.parse of the same records as JSON is measured in between, in this process. Then
// single records are written by one client, and by many at once. Another program may use the disk: of the rates, the rounds' medians
// count. `--write` writes docs/benchmarks-ingest.md; `--profile DIR` makes Node.js write profiles of all threads there.

import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { Agent } from "node:http";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { median } from "../rest/data.ts";
import { clientOf, startQuiver } from "../rest/measured-server.ts";
import { untilQuiet } from "../shared/quiet.ts";
import { writeDocument } from "../shared/report.ts";
import { type Form, forms, vectorsOf } from "./bodies.ts";
import { type Ingest, page, type Single } from "./report.ts";

const { values } = parseArgs({
  options: {
    records: { type: "string", default: "10000" },
    dimension: { type: "string", default: "768" },
    per: { type: "string", default: "500" },
    rounds: { type: "string", default: "3" },
    clients: { type: "string", default: "64" },
    small: { type: "string", default: "6400" },
    forms: { type: "string", default: "" },
    profile: { type: "string" },
    write: { type: "boolean", default: false },
  },
});
const [records, dimension, per, rounds, clients, small] = [
  values.records,
  values.dimension,
  values.per,
  values.rounds,
  values.clients,
  values.small,
].map(Number);
const wanted = forms.filter(({ title }) => title.includes(values.forms));

const vectors = vectorsOf(records, dimension);
const bodiesOf = (form: Form): Buffer[] =>
  Array.from({ length: Math.ceil(records / per) }, (_, i) =>
    form.body(i * per, vectors.slice(i * per, (i + 1) * per)),
  );

/** Processor time of JSON.parse of all records as JSON, in milliseconds. */
function parseMs(texts: readonly string[]): number {
  const before = process.threadCpuUsage();
  for (const text of texts) JSON.parse(text);
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

const dataDir = mkdtempSync(join(tmpdir(), "quiver-bench-ingest-"));
const flags = values.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${values.profile}`];
const server = await startQuiver(dataDir, flags);
const one = clientOf(server.url);
const many = clientOf(server.url, new Agent({ keepAlive: true, maxSockets: clients }));

/** Bytes of all collections' files on disk. */
function diskBytes(): number {
  return readdirSync(join(dataDir, "collections"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== "lock.mdb")
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}

/** Runs `act` on a new collection, which is removed afterwards. */
async function inCollection<T>(act: (path: string) => Promise<T>): Promise<T> {
  await one.send(
    "/vectordb/collections",
    Buffer.from(
      JSON.stringify({
        name: "ingest",
        dense_vector: { enabled: true, dimension },
        sparse_vector: { enabled: false },
        tf_idf_options: { enabled: false },
        config: {},
      }),
    ),
  );
  try {
    return await act("/vectordb/collections/ingest");
  } finally {
    await one.remove("/vectordb/collections/ingest");
    // The server frees the memory of the collection.
    await untilQuiet(server.cpuMs, values.profile === undefined ? undefined : 200);
  }
}

/** Writes all bodies, one after the other. */
const ingest = (form: Form, bodies: readonly Buffer[], inTransaction: boolean): Promise<Ingest> =>
  inCollection(async (path) => {
    const [cpuMs, startMs] = [await server.cpuMs(), performance.now()];
    if (inTransaction) {
      const begun = await one.send(`${path}/transactions`, Buffer.from("{}"));
      const transaction = `${path}/transactions/${JSON.parse(begun.toString()).transaction_id}`;
      for (const body of bodies) await one.send(`${transaction}/upsert`, body, form.contentType);
      await one.send(`${transaction}/commit`, Buffer.alloc(0));
    } else for (const body of bodies) await one.send(`${path}/streaming/upsert`, body, form.contentType);
    return {
      wallMs: performance.now() - startMs,
      cpuMs: (await server.cpuMs()) - cpuMs,
      diskBytes: diskBytes(),
    };
  });

/** Writes single records, by so many clients at once. */
const single = (count: number, atOnce: number): Promise<Single> =>
  inCollection(async (path) => {
    const form = forms[2];
    const bodies = Array.from({ length: count }, (_, i) => form.body(i, [vectors[i % records]]));
    const [cpuMs, startMs] = [await server.cpuMs(), performance.now()];
    let next = 0;
    const client = async () => {
      while (next < count) await many.send(`${path}/streaming/upsert`, bodies[next++], form.contentType);
    };
    await Promise.all(Array.from({ length: atOnce }, client));
    const seconds = (performance.now() - startMs) / 1_000;
    return {
      clients: atOnce,
      rate: count / seconds,
      cpuUs: (((await server.cpuMs()) - cpuMs) * 1_000) / count,
    };
  });

try {
  const texts = bodiesOf(forms[0]).map((body) => body.toString());
  const measured = wanted.map((form) => ({ form, streamed: [] as Ingest[], staged: [] as Ingest[] }));
  const parses: number[] = [];
  const singles: Single[][] = [[], []];
  // The first round warms up.
  for (let round = 0; round <= rounds; round++) {
    for (const { form, streamed, staged } of measured) {
      const bodies = bodiesOf(form);
      parses.push(parseMs(texts));
      streamed.push(await ingest(form, bodies, false));
      staged.push(await ingest(form, bodies, true));
    }
    if (small === 0) continue;
    singles[0].push(await single(Math.ceil(small / 10), 1));
    singles[1].push(await single(small, clients));
  }
  const middle = <T>(list: readonly T[], of: (each: T) => number) => median(list.slice(1).map(of));
  const medianOf = (list: readonly Ingest[]): Ingest => ({
    wallMs: middle(list, ({ wallMs }) => wallMs),
    cpuMs: middle(list, ({ cpuMs }) => cpuMs),
    diskBytes: middle(list, ({ diskBytes }) => diskBytes),
  });
  const text = page({
    forms: measured.map(({ form, streamed, staged }) => ({
      title: form.title,
      bodyBytes: bodiesOf(form).reduce((sum, { length }) => sum + length, 0),
      streamed: medianOf(streamed),
      staged: medianOf(staged),
    })),
    parseMs: median(parses),
    singles: singles.flatMap((list) =>
      list.length === 0
        ? []
        : [
            {
              clients: list[0].clients,
              rate: middle(list, ({ rate }) => rate),
              cpuUs: middle(list, ({ cpuUs }) => cpuUs),
            },
          ],
    ),
    records,
    dimension,
    per,
    rounds,
    processor: cpus()[0]?.model ?? "unknown",
  });
  console.log(text);
  if (values.write) writeDocument("benchmarks-ingest.md", text);
} finally {
  one.end();
  many.end();
  await server.end();
  rmSync(dataDir, { recursive: true, force: true });
}
