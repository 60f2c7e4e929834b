// How are the vectors that match a filter counted, listed, changed and deleted over HTTP?

import { type StoredVector, valueJson } from "@quiverdb/engine/database/contract";
import type { Includable } from "@quiverdb/protocol/shapes/include";
import type { FacetValues } from "@quiverdb/protocol/shapes/matching";
import type { Warning } from "@quiverdb/protocol/shapes/warning";
import { arrayJson, emptyObject, JsonWriter, json } from "../json-answer.ts";
import { withExactMetadata } from "../request/exact-metadata.ts";
import type { Handlers } from "./handlers.ts";

/** What a filter may cost at most, in milliseconds, is not known before; it is not small. */
const filterMs = 4;

export const matchingHandlers: Handlers<
  | "countVectors"
  | "facetVectors"
  | "scrollVectors"
  | "fetchVectors"
  | "deleteMatching"
  | "updateMatching"
  | "patchVector"
> = {
  async countVectors({ database, params, body, deadline, work }) {
    work.task.expect(filterMs);
    return json(await database.collection(params.collection_id).count(body, deadline));
  },
  async facetVectors({ database, params, body, deadline, work }) {
    work.task.expect(filterMs);
    const { facets, warnings } = await database.collection(params.collection_id).facet(body, deadline);
    const out = new JsonWriter();
    out.add('{"facets":');
    if (Array.isArray(facets)) await work.task.finish(arrayJson(facets, out, facetJson));
    else
      for (const [i, [name, values]] of Object.entries(facets).entries()) {
        out.add(`${i === 0 ? "{" : ","}${JSON.stringify(name)}:`);
        await work.task.finish(arrayJson(values, out, facetJson));
      }
    out.add(Array.isArray(facets) ? warningsJson(warnings) : `}${warningsJson(warnings)}`);
    out.add("}");
    return out.end();
  },
  async scrollVectors({ database, access, params, body, deadline, work }) {
    work.task.expect(filterMs);
    const { vectors, nextCursor, warnings } = await database
      .collection(params.collection_id)
      .scroll(body, deadline, access.payer);
    const out = new JsonWriter();
    out.add('{"vectors":');
    await work.task.finish(arrayJson(vectors, out, textOf(body.include)));
    out.add(`,"next_cursor":${JSON.stringify(nextCursor)}${warningsJson(warnings)}}`);
    return out.end();
  },
  async fetchVectors({ database, params, body, deadline, work }) {
    const vectors = await database.collection(params.collection_id).fetch(body, deadline);
    const out = new JsonWriter();
    await work.task.finish(arrayJson(vectors, out, textOf(body.include)));
    return out.end();
  },
  async deleteMatching({ database, params, body, deadline, work }) {
    work.task.expect(filterMs);
    return json(await database.collection(params.collection_id).deleteMatching(body, deadline));
  },
  async updateMatching({ database, params, body, parsed, deadline, work }) {
    work.task.expect(filterMs);
    const { metadataJson } = await work.task.finish(exactPatch(body, parsed));
    const request = { ...body, ...(metadataJson !== undefined && { metadataJson }) };
    return json(await database.collection(params.collection_id).updateMatching(request, deadline));
  },
  async patchVector({ database, params, body, parsed, deadline, work }) {
    const request = await work.task.finish(exactPatch(body, parsed));
    await database.collection(params.collection_id).patch(params.vector_id, request, deadline);
    return emptyObject;
  },
};

type Patch = { metadata: Record<string, unknown>; metadataJson?: string };

/** The patch of a body, with its exact text where that matters. */
function* exactPatch(
  { metadata }: Patch,
  parsed: Parameters<typeof withExactMetadata>[1],
): Generator<void, Patch> {
  // A patch is read like the metadata of a record that has nothing else.
  const [{ metadataJson }] = yield* withExactMetadata([{ id: "", metadata }], parsed, "body");
  return { metadata, ...(metadataJson !== undefined && { metadataJson }) };
}

/** The warnings of an answer, behind another key. */
const warningsJson = (warnings: readonly Warning[] | undefined): string =>
  warnings === undefined ? "" : `,"warnings":${JSON.stringify(warnings)}`;

const facetJson = ({ value, count }: FacetValues[number]): string =>
  `{"value":${valueJson(value)},"count":${count}}`;

const textOf = (include: readonly Includable[] | null | undefined) => (vector: StoredVector | null) =>
  vector === null ? "null" : vector.toJson(include);
