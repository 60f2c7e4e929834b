// How does a test get a PostgreSQL with pgvector?
//
// PGlite is PostgreSQL compiled to WebAssembly, with pgvector beside it, both from npm. It speaks the protocol of PostgreSQL; here over a
// socket, so that `pg` connects to it as to any server. One connection at a time.

import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { PGlite } from "@electric-sql/pglite";
import { vector } from "@electric-sql/pglite-pgvector";

export type Postgres = AsyncDisposable & {
  /** A connection string. */
  readonly url: string;
  /** Runs statements. */
  run(sql: string): Promise<void>;
  /** Connections that are open. */
  connections(): number;
};

export async function postgres(): Promise<Postgres> {
  const database = await PGlite.create({ extensions: { vector } });
  await database.exec("CREATE EXTENSION vector");
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => sockets.delete(socket));
    let answered = Promise.resolve();
    socket.on("data", (message) => {
      answered = answered.then(async () => {
        const answer = await database.execProtocolRaw(message);
        if (socket.writable) socket.write(answer);
      });
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as { port: number };
  return {
    url: `postgres://postgres:secret@127.0.0.1:${port}/postgres`,
    run: async (sql) => {
      await database.exec(sql);
    },
    connections: () => sockets.size,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
      await database.close();
    },
  };
}
