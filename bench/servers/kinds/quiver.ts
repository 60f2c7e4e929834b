// How does the benchmark use Quiver's server?

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "../../../packages/client/src/client.ts";
import { m } from "../../engines/engine.ts";
import { adminKey, startQuiver } from "../../rest/measured-server.ts";
import { built } from "../../shared/built.ts";
import { atExit } from "../../shared/exit.ts";
import { bytesBelow } from "../../shared/files.ts";
import { efConstruction, type ServerKind } from "../server.ts";

export const quiver: ServerKind = {
  name: "quiver",
  title: "Quiver, the whole engine",
  isOurs: true,
  note: "`quiver serve` as it starts by default, with a key and its log, one serving thread at first and up to one a core; codes that it chooses itself; a metadata index on the field that filters use; its own client.",
  missing: () => undefined,
  version: () => `this version, Node.js ${process.version}`,
  async start({ dimension, metric }) {
    const directory = mkdtempSync(join(tmpdir(), "quiver-bench-servers-"));
    const remove = () => rmSync(directory, { recursive: true, force: true });
    const forget = atExit(remove);
    const server = await startQuiver(directory);
    const client = createClient({ url: server.url, apiKey: adminKey });
    const collection = await client.createCollection<{ u: number }>({
      name: "bench",
      dense_vector: { enabled: true, dimension, auto_create_index: false },
    });
    await collection.createDenseIndex({
      distance_metric_type: metric,
      index: { type: "hnsw", properties: { ef_construction: efConstruction, neighbors_count: m } },
    });
    await collection.createMetadataIndex("u", "number");
    return {
      pid: server.pid,
      async add(rows, first) {
        const records = rows.map(({ vector, u }, i) => ({
          id: String(first + i),
          dense_values: vector,
          metadata: { u },
        }));
        await collection.upsert(records);
      },
      async finish() {
        await collection.waitForIndex();
        await built(() => collection.indexes());
      },
      async search(_, query_vector, top_k, { effort, share }) {
        const filter = share < 1 ? { u: { lt: share } } : undefined;
        const { results } = await collection.search.dense({ query_vector, top_k, ef_search: effort, filter });
        return results.map(({ id }) => id);
      },
      diskBytes: () => bytesBelow(directory),
      async end() {
        await server.end();
        forget();
        remove();
      },
    };
  },
};
