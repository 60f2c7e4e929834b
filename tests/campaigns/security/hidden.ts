// Does a key with a filter learn of other records, whatever it asks and writes, while others write them?
//
// Two collections: one with hidden records, which come, change and go, and one without. Every answer to the key must be the same for both.

import {
  type Asked,
  anyRead,
  anyWrite,
  comparable,
  randomOf,
  records,
  tenantFilter,
} from "../../../packages/server/test/hidden-records.ts";
import { type Answer, bodies, collectionBody, type ProbedServer } from "./probed-server.ts";

/** Requests between two writes of hidden records, and between two of the key. */
const requestsPerHiddenWrite = 7;
const requestsPerWrite = 5;
/** Requests between two times that all records which the key saw first are written again. */
const requestsPerRefill = 200;

/** @returns how many requests were answered alike @throws Error at the first difference */
export async function probeHidden(
  probed: ProbedServer,
  requests: number,
  random: () => number,
): Promise<number> {
  const numbers = randomOf(Math.floor(random() * 2 ** 31));
  const made = await probed.call("createKey", {}, { name: "k", role: "write", filter: tenantFilter });
  const { key } = JSON.parse(made.text) as { key: string };
  probed.keepSecret(key.slice(-43));
  const call = async (
    { name, params, body, query = "" }: Asked,
    collection: string,
    secret?: string,
  ): Promise<Answer> => probed.call(name, { collection_id: collection, ...params }, body, secret, query);
  const done = async (asked: Asked, collection: string): Promise<void> => {
    const { status, text } = await call(asked, collection);
    if (status >= 300) throw new Error(`${asked.name}: ${status} ${text}`);
  };

  const all = records(numbers, 300);
  for (const name of ["mixed", "alone"]) {
    const dense_vector = { enabled: true, dimension: 4 };
    await done({ name: "createCollection", body: { ...collectionBody(name), dense_vector } }, name);
    for (const index of ["createDenseIndex", "createSparseIndex", "createTextIndex"] as const)
      await done({ name: index, body: bodies[index] }, name);
    for (const [field, type] of [
      ["n", "number"],
      ["color", "keyword"],
    ])
      await done({ name: "createMetadataIndex", params: { field }, body: { type } }, name);
    const vectors = all.filter(({ metadata }) => name === "mixed" || metadata.tenant === tenantFilter.tenant);
    await done({ name: "streamingUpsert", body: { vectors } }, name);
  }

  const ids = all.map(({ id }) => id);
  const visible = all.filter(({ metadata }) => metadata.tenant === tenantFilter.tenant);
  for (let i = 0; i < requests; i++) {
    // The key deletes records faster than it writes new ones.
    if (i % requestsPerRefill === 0)
      for (const name of ["mixed", "alone"])
        await done({ name: "streamingUpsert", body: { vectors: visible } }, name);
    if (i % requestsPerHiddenWrite === 0) {
      const vectors = records(numbers, 3).filter(({ id }) => id.startsWith("h"));
      if (vectors.length > 0) await done({ name: "streamingUpsert", body: { vectors } }, "mixed");
    }
    const asked = i % requestsPerWrite === 0 ? anyWrite(numbers, ids, i) : anyRead(numbers, ids);
    const [mixed, alone] = [await call(asked, "mixed", key), await call(asked, "alone", key)];
    if (mixed.status === alone.status && comparable(mixed.text) === comparable(alone.text)) continue;
    throw new Error(
      `${JSON.stringify(asked)} tells of hidden records: ${mixed.status} ${mixed.text}, without them ${alone.status} ${alone.text}`,
    );
  }
  return requests;
}
