// What does it cost the server to make records durable, and how much space do they take?
//
//   npm run bench ingest [-- --records 10000 --dimension 768 --per 500 --rounds 3 --clients 64 --small 6400]
//
// One server in its own process. For each form of a body, a client writes all records into a new collection without an index, one request
// after the other, with and without a transaction; JSON.parse of the same records as JSON is measured in between, in this process. Then
// single records are written by one client, and by many at once. Another program may use the disk: of the rates, the rounds' medians
// count. `--profile DIR` makes Node.js write profiles of all threads there.

import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clientOf, startQuiver } from "../rest/measured-server.ts";
import { median, overRounds } from "../shared/figures.ts";
import { readOptions } from "../shared/options.ts";
import { publish } from "../shared/publish.ts";
import { untilQuiet } from "../shared/quiet.ts";
import { type Form, forms, vectorsOf } from "./bodies.ts";

/** Times of writing all records once, and the bytes of the collection's files afterwards. */
type Ingest = { readonly wallMs: number; readonly cpuMs: number; readonly diskBytes: number };

/** Records a second, and the server's processor time for each. */
type Single = { readonly clients: number; readonly perSecond: number; readonly cpuUs: number };

const { values, isKept } = readOptions(
  {},
  {
    records: "10000",
    dimension: "768",
    per: "500",
    rounds: "3",
    clients: "64",
    small: "6400",
    forms: "",
    profile: "",
  },
);
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
const flags = values.profile === "" ? [] : ["--cpu-prof", `--cpu-prof-dir=${values.profile}`];
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
    await untilQuiet(server.cpuMs, values.profile === "" ? undefined : 200);
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
      perSecond: count / seconds,
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
  const figuresOf = (list: readonly Ingest[]) => ({
    wallMs: middle(list, ({ wallMs }) => wallMs),
    ...overRounds(
      "cpuMs",
      list.slice(1).map(({ cpuMs }) => cpuMs),
    ),
    diskBytes: middle(list, ({ diskBytes }) => diskBytes),
  });
  const parsed = median(parses);
  const options = { records, dimension, per, rounds };
  const rows = measured.flatMap(({ form, streamed, staged }) =>
    [
      { written: "streamed", ...figuresOf(streamed) },
      { written: "in a transaction", ...figuresOf(staged) },
    ].map(({ written, cpuMs, cpuMsMin, cpuMsMax, wallMs, diskBytes: bytes }) => ({
      form: form.title,
      written,
      bodiesMB: bodiesOf(form).reduce((sum, { length }) => sum + length, 0) / 1e6,
      cpuMs,
      cpuMsMin,
      cpuMsMax,
      cpuTimesParse: cpuMs / parsed,
      wallMs,
      wallTimesParse: wallMs / parsed,
      filesTimesVectors: bytes / (records * dimension * 4),
    })),
  );
  const title = "What it costs to write records";
  publish("ingest", { key: "bodies", title, options, facts: { parseMs: parsed }, rows }, isKept);
  if (small > 0) {
    const clientRows = singles.map((list) => ({
      clients: list[0].clients,
      perSecond: middle(list, ({ perSecond }) => perSecond),
      cpuUs: middle(list, ({ cpuUs }) => cpuUs),
    }));
    publish(
      "ingest",
      {
        key: "single",
        title: "Single records, each its own request",
        options,
        facts: { timesOneClient: clientRows[1].perSecond / clientRows[0].perSecond },
        rows: clientRows,
      },
      isKept,
    );
  }
} finally {
  one.end();
  many.end();
  await server.end();
  rmSync(dataDir, { recursive: true, force: true });
}
