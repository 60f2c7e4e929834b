// How does the benchmark use PostgreSQL with pgvector?

import { execFileSync } from "node:child_process";
import { type Metric, m, rival } from "../../engines/engine.ts";
import { startChild } from "../child.ts";
import { inDebian, installDebian, rivalDirectory, versionOf } from "../debian.ts";
import { efConstruction, type Row, type ServerKind } from "../server.ts";

/** Operator classes of the index, and operators of the query. */
const metrics: Readonly<Record<Metric, readonly [ops: string, operator: string]>> = {
  cosine: ["vector_cosine_ops", "<=>"],
  euclidean: ["vector_l2_ops", "<->"],
  dot_product: ["vector_ip_ops", "<#>"],
};

const programs = "/usr/lib/postgresql/17/bin";
const user = "bench";

/** As much memory as a dedicated machine gives it; the rest is as it comes. */
const settings = [
  "listen_addresses=127.0.0.1",
  "unix_socket_directories=",
  "shared_buffers=1GB",
  "maintenance_work_mem=1GB",
  "max_wal_size=4GB",
].flatMap((setting) => ["-c", setting]);

const textOf = (vector: Float32Array): string => `[${vector.join(",")}]`;

export const postgres: ServerKind = {
  name: "pgvector",
  title: "PostgreSQL, pgvector HNSW",
  note: "`shared_buffers` and `maintenance_work_mem` of 1 GB, durable as it comes. Rows are inserted 1,000 at a time as arrays; then the HNSW index and a btree on the field that filters use are built, and the table is analysed. Prepared statements; filtered searches with `hnsw.iterative_scan = relaxed_order`. The client is `pg`.",
  missing: installDebian,
  version: () => `PostgreSQL ${versionOf("postgresql-17")}, pgvector ${versionOf("postgresql-17-pgvector")}`,
  async start({ dimension, metric, connections }) {
    const { Client } = rival("pg");
    const connect = async (port: number) => {
      const client = new Client({ host: "127.0.0.1", port, user, database: "postgres" });
      await client.connect();
      return client;
    };
    const directory = rivalDirectory("postgres");
    const data = `${directory.inside}/data`;
    const init = ["-D", data, "-U", user, "--auth=trust", "--encoding=UTF8", "--locale=C"];
    execFileSync(...inDebian(`${programs}/initdb`, init), { stdio: "pipe", cwd: "/" });
    const child = await startChild({
      command: (port) => [`${programs}/postgres`, "-D", data, "-p", String(port), ...settings],
      ask: async (port) => (await connect(port)).end(),
      // Without waiting for connections to be closed by their clients.
      signal: "SIGINT",
    });
    const clients = await Promise.all(Array.from({ length: connections }, () => connect(child.port)));
    const [first] = clients;
    const [ops, operator] = metrics[metric];
    await first.query("create extension vector");
    await first.query(
      `create table bench (id int primary key, u float8 not null, v vector(${dimension}) not null)`,
    );
    return {
      pid: child.pid,
      async add(rows: readonly Row[], from: number) {
        await first.query({
          name: "insert",
          text: "insert into bench select * from unnest($1::int[], $2::float8[], $3::vector[])",
          values: [
            rows.map((_, i) => from + i),
            rows.map(({ u }) => u),
            rows.map(({ vector }) => textOf(vector)),
          ],
        });
      },
      async finish() {
        await first.query(
          `create index on bench using hnsw (v ${ops}) with (m = ${m}, ef_construction = ${efConstruction})`,
        );
        await first.query("create index on bench (u)");
        await first.query("vacuum analyze bench");
      },
      async prepare({ effort, share }) {
        const scan = share < 1 ? "relaxed_order" : "off";
        for (const client of clients)
          await client.query(`set hnsw.ef_search = ${effort}; set hnsw.iterative_scan = ${scan}`);
      },
      async search(connection, query, k, { share }) {
        // The share stands in the statement, so that the planner knows how selective it is.
        const where = share < 1 ? `where u < ${share}` : "";
        const { rows } = await clients[connection].query({
          name: `search-${share}`,
          text: `select id from bench ${where} order by v ${operator} $1 limit ${k}`,
          values: [textOf(query)],
        });
        return rows.map(({ id }: { id: number }) => id);
      },
      diskBytes: directory.bytes,
      async end() {
        await Promise.all(clients.map((client) => client.end()));
        await child.end();
        directory.remove();
      },
    };
  },
};
