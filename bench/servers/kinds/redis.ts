// How does the benchmark use the vector sets of Redis?

import { m, rival } from "../../engines/engine.ts";
import { startChild } from "../child.ts";
import { installDebian, rivalDirectory, versionOf } from "../debian.ts";
import { efConstruction, type Row, type ServerKind } from "../server.ts";

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

const kind = (name: string, title: string, quantization: "Q8" | "NOQUANT", note: string): ServerKind => ({
  name,
  title,
  note: `${note} Written to an append-only file, synchronised every second; \`CAS\` lets several connections build at once. Filters are expressions on the element's attributes, with a \`FILTER-EF\` of a million: as many nodes as it takes. The client is \`@redis/client\`.`,
  missing: ({ metric }) => (metric === "cosine" ? installDebian() : "its vector sets have the cosine only"),
  version: () => `Redis ${versionOf("redis-server")}`,
  async start({ connections }) {
    const { createClient } = rival("@redis/client");
    const connect = async (port: number) => {
      const client = createClient({ socket: { host: "127.0.0.1", port, reconnectStrategy: false } });
      // A connection that is lost rejects its commands; without a listener the event would end this process.
      client.on("error", () => {});
      await client.connect();
      return client;
    };
    const directory = rivalDirectory("redis");
    const options = [
      "--dir",
      directory.inside,
      "--save",
      "",
      "--appendonly",
      "yes",
      "--appendfsync",
      "everysec",
    ];
    const child = await startChild({
      command: (port) => ["/usr/bin/redis-server", "--bind", "127.0.0.1", "--port", String(port), ...options],
      async ask(port) {
        const client = await connect(port);
        await client.ping();
        client.destroy();
      },
    });
    const clients = await Promise.all(Array.from({ length: connections }, () => connect(child.port)));
    return {
      pid: child.pid,
      async add(rows: readonly Row[], first: number) {
        const { length } = clients;
        const added = rows.map(({ vector, u }, i) =>
          clients[i % length].sendCommand([
            ...["VADD", "bench", "FP32", bytesOf(vector), String(first + i), "CAS", quantization],
            ...["EF", String(efConstruction), "SETATTR", JSON.stringify({ u }), "M", String(m)],
          ]),
        );
        await Promise.all(added);
      },
      finish: async () => {},
      search(connection, query, k, { effort, share }) {
        const filter = share < 1 ? ["FILTER", `.u < ${share}`, "FILTER-EF", "1000000"] : [];
        return clients[connection].sendCommand([
          ...["VSIM", "bench", "FP32", bytesOf(query), "COUNT", String(k), "EF", String(effort), ...filter],
        ]);
      },
      diskBytes: directory.bytes,
      async end() {
        for (const client of clients) client.destroy();
        await child.end();
        directory.remove();
      },
    };
  },
});

export const redis: readonly ServerKind[] = [
  kind("redis-q8", "Redis vector set, Q8", "Q8", "Vectors are kept as 8-bit codes only, as by default."),
  kind("redis-f32", "Redis vector set, f32", "NOQUANT", "Vectors are kept whole."),
];
