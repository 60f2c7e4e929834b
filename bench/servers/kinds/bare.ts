// How does the benchmark use the bare server?

import { clientOf, startBare } from "../../rest/measured-server.ts";
import type { ServerKind } from "../server.ts";

export const bare: ServerKind = {
  name: "bare",
  title: "node:http alone",
  isBare: true,
  note: "The server of the benchmark of REST: it reads a body like Quiver's, with the vector as base64, parses it, and answers with ten results, always the same. No key, no checks, no search.",
  missing: () => undefined,
  version: () => `Node.js ${process.version}`,
  async start() {
    const server = await startBare();
    const { send, end } = clientOf(server.url);
    return {
      pid: server.pid,
      add: async () => {},
      finish: async () => {},
      async search(_, { buffer, byteOffset, byteLength }, top_k) {
        const f32 = Buffer.from(buffer, byteOffset, byteLength).toString("base64");
        const answer = await send("/", Buffer.from(JSON.stringify({ query_vector: { f32 }, top_k })));
        const { results } = JSON.parse(answer.toString()) as { results: { id: string }[] };
        return results.map(({ id }) => id);
      },
      diskBytes: () => 0,
      async end() {
        end();
        await server.end();
      },
    };
  },
};
