// Does a request become a trace, where the environment asks for one?

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { afterEach, expect, test, vi } from "vitest";
import { isTracingWanted } from "../src/operations/tracing.ts";
import { pathOf, startTestServer } from "./running.ts";

type Attribute = { key: string; value: Record<string, string | number> };
type Span = {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  attributes: Attribute[];
  status: { code?: number };
};
type Export = { resourceSpans: { resource: { attributes: Attribute[] }; scopeSpans: { spans: Span[] }[] }[] };

afterEach(() => vi.unstubAllEnvs());

const attributesOf = (attributes: Attribute[]) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));

test("[H30] nothing is traced unless the standard variables name where to", () => {
  expect(isTracingWanted({})).toBe(false);
  expect(isTracingWanted({ OTEL_SERVICE_NAME: "q" })).toBe(false);
  expect(isTracingWanted({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" })).toBe(true);
  expect(isTracingWanted({ OTEL_TRACES_EXPORTER: "otlp" })).toBe(true);
  const named = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };
  expect(isTracingWanted({ ...named, OTEL_SDK_DISABLED: "true" })).toBe(false);
  expect(isTracingWanted({ ...named, OTEL_TRACES_EXPORTER: "none" })).toBe(false);
});

test("[H30] a request is a span in its caller's trace, with the steps of the engine, and nothing of what was sent", async () => {
  const received: Export[] = [];
  const collector = createServer(async (request, response) => {
    expect(request.url).toBe("/v1/traces");
    received.push((await json(request)) as Export);
    response.setHeader("content-type", "application/json").end("{}");
  });
  await once(collector.listen(0, "127.0.0.1"), "listening");
  vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", `http://127.0.0.1:${(collector.address() as AddressInfo).port}`);
  vi.stubEnv("OTEL_SERVICE_NAME", "books");
  const server = await startTestServer();
  await server.makeCollection("c", { dimension: 2 });
  const vectors = [{ id: "secret-id", dense_values: [1, 0], metadata: { color: "secret-color" } }];
  await server.call("streamingUpsert", { collection_id: "c" }, { vectors });
  const traceId = "0af7651916cd43dd8448eb211c80319c";
  // In a serving thread, filters and the store are the owner's, which is not traced.
  const isThreaded = process.env.QUIVER_TEST_SERVING_THREADS !== undefined;
  const filter = isThreaded ? null : { color: "secret-color" };
  const search = { query_vector: [1, 0], filter };
  const headers = { traceparent: `00-${traceId}-b7ad6b7169203331-01` };
  const path = pathOf("searchDense", { collection_id: "c" });
  expect((await server.ask(path, { body: search, headers })).json.results).toHaveLength(1);
  await server.ask(path, { body: { query_vector: [1, 0, 0] } });
  await server.end();
  collector.close();

  const [{ resource }] = received[0].resourceSpans;
  expect(attributesOf(resource.attributes)).toMatchObject({ "service.name": "books" });
  const spans = received.flatMap(({ resourceSpans }) =>
    resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)),
  );
  const route = "POST /vectordb/collections/:collection_id/search/dense";
  const request = spans.find((span) => span.traceId === traceId && span.name === route) as Span;
  expect(request.parentSpanId).toBe("b7ad6b7169203331");
  expect(attributesOf(request.attributes)).toMatchObject({
    "quiver.collection": "c",
    "http.response.status_code": 200,
  });
  const steps = spans.filter((span) => span.parentSpanId === request.spanId).map(({ name }) => name);
  expect(steps.toSorted()).toEqual([
    "acquire view",
    "fetch",
    ...(isThreaded ? [] : ["filter"]),
    "leg",
    "plan",
  ]);
  const upsert = spans.find(({ name }) => name.endsWith("/streaming/upsert")) as Span;
  const stored = spans.filter((span) => span.parentSpanId === upsert.spanId);
  if (!isThreaded) expect(stored.map(({ name }) => name)).toContain("store");
  const refused = spans.find(
    (span) => span.name === route && attributesOf(span.attributes)["http.response.status_code"] === 400,
  ) as Span;
  expect(spans.some((span) => span.parentSpanId === refused.spanId && span.status.code === 2)).toBe(true);
  expect(JSON.stringify(received)).not.toContain("secret");
});
