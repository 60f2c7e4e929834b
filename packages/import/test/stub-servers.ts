// How do the servers of other databases answer, whose programs are not to be had in npm?
//
// Over real HTTP, as their published OpenAPI documents say, and as a real Chroma 1.3 was seen to answer: the requests that reading takes, and
// no others. A key is asked for where the real server does.

import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export type StubServer = AsyncDisposable & {
  readonly url: string;
  /** `GET /path?query`, in order. */
  readonly requests: string[];
};

type Answer = { status?: number; body: unknown };
// biome-ignore lint/suspicious/noExplicitAny: bodies of requests, as the stubs read them.
type Handler = (path: string, url: URL, body: any, request: IncomingMessage, sent: string) => Answer;

async function stub(handler: Handler): Promise<StubServer> {
  const requests: string[] = [];
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? "", "http://127.0.0.1");
    requests.push(`${request.method} ${request.url}`);
    const sent = await text(request);
    const path = `${request.method} ${decodeURIComponent(url.pathname)}`;
    const { status = 200, body } = handler(path, url, sent === "" ? {} : JSON.parse(sent), request, sent);
    response.writeHead(status, { "content-type": "application/json" });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/**
 * Qdrant with one collection, "books".
 * @param params vectors and sparse vectors of the collection
 * @param json the points, in the order of their ids, as JSON texts: ids may be larger than a number holds
 */
export function qdrantServer(params: object, json: readonly string[], apiKey?: string): Promise<StubServer> {
  const idOf = (point: string) => /^\{"id":("[^"]*"|\d+)/.exec(point)?.[1] ?? "";
  return stub((path, _, body, { headers }, sent) => {
    if (apiKey !== undefined && headers["api-key"] !== apiKey)
      return { status: 401, body: { status: { error: "Must provide an API key" } } };
    if (path === "GET /collections/books")
      return { body: { status: "ok", time: 0, result: { status: "green", config: { params } } } };
    if (path === "POST /collections/books/points/count")
      return { body: { status: "ok", time: 0, result: { count: json.length } } };
    if (path !== "POST /collections/books/points/scroll")
      return {
        status: 404,
        body: { status: { error: "Not found: Collection `films` doesn't exist!" }, time: 0 },
      };
    const { limit, with_payload, with_vector } = body as {
      limit: number;
      with_payload: boolean;
      with_vector: boolean | string[];
    };
    const offset = /"offset":("[^"]*"|\d+)/.exec(sent)?.[1];
    const from = offset === undefined ? 0 : json.findIndex((point) => idOf(point) === offset);
    if (from < 0 || !with_payload) return { status: 400, body: { status: { error: "wrong request" } } };
    const page = json.slice(from, from + limit).map((point) => {
      if (!Array.isArray(with_vector)) return point;
      const { vector, ...rest } = JSON.parse(point);
      const kept = Object.fromEntries(with_vector.map((name) => [name, vector[name]]));
      return JSON.stringify({ ...rest, vector: kept });
    });
    const next = json[from + limit];
    const points = `"points":[${page.join(",")}]`;
    return {
      body: `{"status":"ok","time":0,"result":{${points},"next_page_offset":${next === undefined ? "null" : idOf(next)}}}`,
    };
  });
}

export type StubVector = {
  id: string;
  values?: number[];
  sparseValues?: { indices: number[]; values: number[] };
  metadata?: object;
};

/** Pinecone with one index, "books". @param fields of its schema. @param namespaces its vectors, by namespace */
export async function pineconeServer(
  fields: object,
  namespaces: Readonly<Record<string, readonly StubVector[]>>,
): Promise<StubServer> {
  const server: StubServer = await stub((path, url, _, { headers }) => {
    if (headers["api-key"] !== "key")
      return {
        status: 401,
        body: { error: { code: "UNAUTHENTICATED", message: "Invalid API key" }, status: 401 },
      };
    if (path === "GET /indexes/books")
      return {
        body: {
          name: "books",
          host: server.url,
          status: { ready: true, state: "Ready" },
          deployment: { deployment_type: "managed", cloud: "aws", region: "us-east-1" },
          schema: { fields },
          deletion_protection: "disabled",
        },
      };
    const namespace = url.searchParams.get("namespace") ?? "";
    const vectors = namespaces[namespace === "__default__" ? "" : namespace] ?? [];
    if (path === "POST /describe_index_stats")
      return {
        body: {
          namespaces: Object.fromEntries(
            Object.entries(namespaces).map(([name, { length }]) => [name, { vectorCount: length }]),
          ),
          dimension: 2,
          totalVectorCount: Object.values(namespaces).flat().length,
        },
      };
    if (path === "GET /vectors/list") {
      const from = Number(url.searchParams.get("paginationToken") ?? 0);
      const end = from + Number(url.searchParams.get("limit"));
      return {
        body: {
          vectors: vectors.slice(from, end).map(({ id }) => ({ id })),
          ...(end < vectors.length && { pagination: { next: String(end) } }),
          namespace: "",
        },
      };
    }
    if (path === "GET /vectors/fetch") {
      const ids = url.searchParams.getAll("ids");
      const found = vectors.filter(({ id }) => ids.includes(id) && id !== "deleted");
      return { body: { vectors: Object.fromEntries(found.map((one) => [one.id, one])), namespace: "" } };
    }
    return {
      status: 404,
      body: { error: { code: "NOT_FOUND", message: "Resource not found" }, status: 404 },
    };
  });
  return server;
}

export type StubRecord = {
  id: string;
  embedding: number[];
  document: string | null;
  metadata: object | null;
  uri?: string;
};

/** Chroma with one collection, "books". */
export function chromaServer(configuration: object, records: readonly StubRecord[]): Promise<StubServer> {
  const collections = "/api/v2/tenants/default_tenant/databases/default_database/collections";
  const id = "8c5f6f84-6a1a-4a43-ae8c-9a9b1d6f5a0b";
  return stub((path, _, body, { headers }) => {
    if (headers["x-chroma-token"] !== "key")
      return { status: 401, body: { error: "AuthError", message: "Unauthorized" } };
    if (path === "GET /api/v2/auth/identity")
      return { body: { user_id: "", tenant: "default_tenant", databases: ["default_database"] } };
    if (path === `GET ${collections}/books`)
      return {
        body: {
          id,
          name: "books",
          configuration_json: configuration,
          schema: null,
          metadata: null,
          dimension: 2,
          tenant: "default_tenant",
          database: "default_database",
          log_position: 0,
          version: 0,
        },
      };
    if (path === `GET ${collections}/${id}/count`) return { body: records.length };
    if (path !== `POST ${collections}/${id}/get`)
      return { status: 404, body: { error: "NotFoundError", message: "Collection [films] does not exist" } };
    const { limit, offset, include } = body as { limit: number; offset: number; include: string[] };
    const page = records.slice(offset, offset + limit);
    const list = (kind: string, values: unknown[]) => (include.includes(kind) ? values : null);
    return {
      body: {
        ids: page.map((record) => record.id),
        embeddings: list(
          "embeddings",
          page.map(({ embedding }) => embedding),
        ),
        documents: list(
          "documents",
          page.map(({ document }) => document),
        ),
        metadatas: list(
          "metadatas",
          page.map(({ metadata }) => metadata),
        ),
        uris: list(
          "uris",
          page.map(({ uri = null }) => uri),
        ),
        include,
      },
    };
  });
}
