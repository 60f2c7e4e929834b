// How is the OpenAPI document generated from the operations?
//
// @fastify/swagger walks the registered endpoints and reads the documentation of each, which this file generates from the list of operations.
//   Response schemas appear only in the document; responses are not serialised by them.

import type { Operation, OperationName } from "@quiverdb/engine/operations/operations";
import type { Parameters } from "@quiverdb/engine/operations/parameters";
import { errorKinds } from "@quiverdb/protocol/errors";
import { ErrorShape } from "@quiverdb/protocol/shapes/common";
import type { FastifyInstance } from "fastify";
import type { TSchema } from "typebox";
import { needOf } from "../auth/access.ts";
import { PackedText } from "./packed-text.ts";

export const openapiPaths = ["/openapi.json", "/api-docs/openapi.json"] as const;

/** Statuses that any endpoint with authentication can return. */
const commonErrors = [401, 403, 429, 503];
const bodyErrors = [413, 415];

const parameterTexts: Record<string, string> = {
  collection_id: "Name of the collection.",
  transaction_id: "Id of the transaction, as returned when it was created.",
  vector_id: "Id of the vector, percent-encoded.",
  index_type: "dense, sparse or tf_idf.",
  version_hash: "Hash of a version, 64 hex characters.",
  version: "Number, hash or tag of a version.",
  other: "Number, hash or tag of the version that it is compared with.",
  tag: "Name of the tag: no number, and no hash.",
  alias: "The alias, another name of a collection.",
  key_id: "Id of an API key, as returned when keys are created or listed.",
  snapshot_id: "Id of a snapshot, as returned when snapshots are created or listed.",
};

/** Of the collection that the examples of bodies make. What is missing is given by the server. */
const parameterExamples: Record<string, string> = {
  collection_id: "articles",
  vector_id: "a1",
  document_id: "bees",
  field: "year",
  index_type: "dense",
  version: "1",
  other: "2",
  tag: "release-1",
  alias: "articles-live",
};

const statusTexts: Record<number, string> = {
  200: "Done.",
  201: "Created.",
  204: "Done; no body.",
};

/** The documentation of one endpoint, in the form that @fastify/swagger reads. */
export function documentation(name: OperationName, route: Operation) {
  return ({ url }: { url: string }) => ({ url, schema: described(name, route) });
}

function described(name: OperationName, route: Operation): Record<string, unknown> {
  const isPublic = route.role === "anyone";
  const statuses = new Set([
    ...route.errors,
    ...(route.past ? [410] : []),
    ...(route.once ? [422] : []),
    ...(isPublic ? [429, 503] : commonErrors),
  ]);
  if (route.body) for (const status of bodyErrors) statuses.add(status);
  const response: Record<number, unknown> = { [route.status]: success(route) };
  for (const status of [...statuses].sort()) response[status] = failure(status, route);
  return {
    operationId: name,
    tags: [route.tag],
    summary: route.summary,
    ...(isPublic ? {} : { description: needText(route) }),
    ...(isPublic ? { security: [] } : {}),
    ...(route.body ? { body: bodyOf(route, route.body) } : {}),
    ...(route.upload ? uploadBody : {}),
    ...(route.query ? { querystring: querySchema(route.query) } : {}),
    ...(route.once || route.events ? { headers: headersSchema(route) } : {}),
    ...paramsSchema(route.path),
    response,
  };
}

/** Which keys are accepted, as text for the API reference. */
function needText(route: Operation): string {
  const reach = {
    path: " with access to the collection",
    "body.name": " with access to the collection",
    answer: "; a key that is limited to collections sees only those",
    nowhere: " that is not limited to collections",
  }[needOf(route).collections];
  const filter = {
    filtered: " For a key with a filter only the records that match exist.",
    harmless: "",
    closed: " Not for keys with a filter.",
  }[route.keyFilter ?? "closed"];
  return `Needs a key with the role \`${route.role}\`${reach}.${filter}`;
}

const uploadBody = {
  consumes: ["application/octet-stream"],
  body: { type: "string", format: "binary", description: "The bytes of the file." },
};

const bodyOf = ({ records, examples }: Operation, shape: TSchema): unknown =>
  records === "vectors" ? bulkBody(shape, examples) : { ...plain(shape), examples };

/** A body of many records in each of its formats. */
function bulkBody(shape: TSchema, given: readonly unknown[]): unknown {
  const json = plain(shape);
  const record = json.properties.vectors.items;
  const bytes = {
    type: "string",
    format: "binary",
    description: "MessagePack bin: the bytes of `dimension` 32-bit floats, little-endian.",
  };
  const dense_values = { oneOf: [bytes, { type: "array", items: { type: "number" } }, { type: "null" }] };
  return {
    content: {
      "application/json": { schema: { ...json, examples: given } },
      "application/x-ndjson": { schema: { ...record, title: "One record a line" } },
      "application/msgpack": {
        schema: {
          ...record,
          title: "One record after the other, or an array of them",
          properties: { ...record.properties, dense_values },
        },
      },
    },
  };
}

function success(route: Operation): unknown {
  const description = statusTexts[route.status];
  if (route.answer === undefined) return { type: "null", description };
  const events = { "text/event-stream": { schema: { type: "string", description: eventsText } } };
  const content = {
    [route.mediaType ?? "application/json"]: { schema: plain(route.answer) },
    ...(route.events && events),
  };
  return { description, content };
}

const eventsText =
  "Events `upsert` and `delete`, whose `data` is a change as a page has it and whose `id` is its `place`.";

function headersSchema({ once, events }: Operation): unknown {
  const texts = {
    ...(once && {
      "idempotency-key":
        "1 to 255 printable ASCII characters, such as a random UUID: a request with the same key is answered alike for 24 hours, and not done again.",
    }),
    ...(events && {
      "last-event-id": "Of a stream of events: the `id` of the last one, where it goes on; before `since`.",
    }),
  };
  const properties = Object.entries(texts).map(([name, description]) => [
    name,
    { type: "string", description },
  ]);
  return { type: "object", properties: Object.fromEntries(properties) };
}

function failure(status: number, route: Operation): unknown {
  const codes = Object.entries(errorKinds)
    .filter(([code, kind]) => (route.statusOf?.[code as keyof typeof errorKinds] ?? kind.status) === status)
    .map(([code, kind]) => `- \`${code}\`: ${kind.meaning}`);
  const description = `One of these codes:\n\n${codes.join("\n")}`;
  // HEAD returns only the status.
  return route.method === "HEAD"
    ? { type: "null", description }
    : { description, content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } } };
}

function querySchema(query: Parameters): unknown {
  const entries = Object.entries(query);
  return {
    type: "object",
    required: entries.filter(([, { isRequired }]) => isRequired).map(([name]) => name),
    properties: Object.fromEntries(
      entries.map(([name, { description }]) => [name, { type: "string", description }]),
    ),
    additionalProperties: false,
  };
}

function paramsSchema(path: string): Record<string, unknown> {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  if (names.length === 0) return {};
  const properties = names.map((name) => {
    const example = parameterExamples[name];
    const examples = example === undefined ? {} : { examples: [example] };
    return [name, { type: "string", description: parameterTexts[name], ...examples }];
  });
  return { params: { type: "object", required: names, properties: Object.fromEntries(properties) } };
}

/** A shape as plain JSON Schema, without TypeBox's internal properties. */
const plain = (shape: unknown) => JSON.parse(JSON.stringify(shape));

/** Must be registered before the endpoints. */
export async function registerOpenapi(app: FastifyInstance, version: string): Promise<void> {
  // Loaded only here: serving threads do without, and without its memory.
  const { default: swagger } = await import("@fastify/swagger");
  await app.register(swagger, {
    hideUntagged: true,
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "Quiver",
        version,
        description: introduction,
        license: { name: "Apache-2.0", identifier: "Apache-2.0" },
      },
      servers: [{ url: "/" }],
      security: [{ bearer: [] }],
      components: {
        securitySchemes: {
          bearer: {
            type: "http",
            scheme: "bearer",
            description: "The admin key, an API key, or the token of a session.",
          },
        },
        schemas: { Error: plain(ErrorShape) },
      },
      tags: tagTexts.map(([name, description]) => ({ name, description })),
    },
  });
}

/** The groups of operations, in the order of the document. */
export const tagTexts = [
  ["Collections", "Named sets of vectors, and the kinds of data that they hold."],
  ["Indexes", "One dense, one sparse and one text index for each collection."],
  ["Search", "Dense, sparse, text and hybrid search, one query or a batch."],
  ["Transactions", "Groups of changes that become visible atomically."],
  ["Vectors", "Reading and deleting by id or by document."],
  ["Streaming", "Changes outside a transaction, visible at once."],
  ["Versions", "The states of a collection after each durable write."],
  ["Aliases", "Other names of collections, which can be moved at once."],
  ["Authentication", "API keys with roles, the audit log of changes, and sessions."],
  ["Snapshots", "Backups: files with one version of a collection, or with the changes between two versions."],
];

/** What holds for all operations. */
export const introduction = `Stores vectors in named collections and searches them: dense, sparse, full text (BM25), and fused.

Every request carries \`Authorization: Bearer <key>\`. Bodies are JSON in UTF-8, upserts of many records also lines of JSON or MessagePack. A dense
vector is a list of numbers, or \`{"f32": "<base64>"}\`, which is smaller and costs less: the bytes of its 32-bit floats. Unknown fields are rejected, and
\`null\` for an optional key means that it is absent. Every error response is \`{"error": {"code", "message", "details"}}\`.

In addition to the endpoints below there are \`GET /health/live\`, \`GET /health/ready\` (both without a key) and
\`GET /metrics\` for Prometheus, and \`GET /metrics/last-hour\`: some of these metrics, twice a minute.`;

/** Serves the document, which is generated once from the endpoints that are registered by then. */
export function serveOpenapi(app: FastifyInstance): void {
  let text: PackedText | undefined;
  for (const url of openapiPaths) {
    app.get(
      url,
      {
        config: { need: { role: "anyone", collections: "nowhere", takesFilter: true } as const },
        schema: { hide: true } as object,
      },
      async (request, reply) => {
        text ??= new PackedText(JSON.stringify((app as FastifyInstance & { swagger(): unknown }).swagger()));
        const body = await text.answer(request, reply);
        return reply.type("application/json; charset=utf-8").send(body);
      },
    );
  }
}
