// Do unexpected errors reveal anything about the machine, on any endpoint?

import { type Operation, type OperationName, operations } from "@quiverdb/engine/operations/operations";
import { bodies, type ProbedServer } from "./probed-server.ts";

const secret = "/var/lib/quiver/secret-of-the-engine/data.mdb";

/** The parts of the engine that endpoints use. */
const broken = [
  "createCollection",
  "listCollections",
  "loadedCollections",
  "collection",
  "deleteCollection",
  "snapshots",
  "restoreCollection",
  "copyCollection",
  "mergeCollection",
  "aliases",
];

/** Lets every call of the engine fail, with a message that must not be exposed. @returns the tested endpoints */
export async function probeFaults(probed: ProbedServer): Promise<number> {
  const database = probed.server.database as unknown as Record<string, unknown>;
  const fault = () => {
    throw Object.assign(new Error(`EIO: i/o error, open '${secret}'`), { path: secret });
  };
  const before = Object.getOwnPropertyDescriptors(database);
  for (const name of broken) Object.defineProperty(database, name, { get: fault, configurable: true });
  let asked = 0;
  try {
    for (const [name, route] of Object.entries(operations) as [OperationName, Operation][]) {
      if (!route.path.startsWith("/vectordb")) continue;
      const params = { collection_id: "c", index_type: "dense" };
      const query = Object.values(route.query ?? {}).some(({ isRequired }) => isRequired)
        ? "?document_id=d"
        : "";
      const path = route.path.replaceAll(/\{(\w+)\}/g, (_, p: "collection_id") => params[p] ?? "x");
      const { status, text } = await probed.ask(`${path}${query}`, {
        method: route.method,
        body: bodies[name],
      });
      if (status !== 500) throw new Error(`${name} on a broken engine was answered with ${status}: ${text}`);
      if (text.includes(secret) || text.includes("EIO"))
        throw new Error(`${name} exposes the engine: ${text}`);
      asked++;
    }
  } finally {
    for (const name of broken) {
      delete database[name];
      if (Object.hasOwn(before, name)) Object.defineProperty(database, name, before[name]);
    }
  }
  return asked;
}
