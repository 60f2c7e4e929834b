// How does a request become a trace of OpenTelemetry?
//
// Off, unless an exporter is configured by the standard variables (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or
// OTEL_TRACES_EXPORTER=otlp); the library is loaded only then. A request is a span with the pattern of its route, in the trace of its caller
// where it has a `traceparent`; the engine's steps (plan, acquire view, filter, leg, fetch, store) are spans in it. No span has a text, a
// vector or an id.

import type { IncomingHttpHeaders } from "node:http";
import type { Context, Span, Tracer } from "@opentelemetry/api";
import type { Trace, TraceAttributes, TraceSpan } from "@quiverdb/engine/database/contract";

/** Whether the environment asks for traces. */
export function isTracingWanted(env: NodeJS.ProcessEnv): boolean {
  if (env.OTEL_SDK_DISABLED === "true" || env.OTEL_TRACES_EXPORTER === "none") return false;
  const named = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? env.OTEL_EXPORTER_OTLP_ENDPOINT;
  return (named !== undefined && named !== "") || env.OTEL_TRACES_EXPORTER === "otlp";
}

/** The trace of a request. */
export interface RequestTrace extends Trace {
  /** The response is out. @param status 499 for a client that disconnected before */
  finish(status: number): void;
}

export type Tracing = {
  /** @param collection that the path names */
  request(
    method: string,
    route: string,
    headers: IncomingHttpHeaders,
    collection: string | undefined,
  ): RequestTrace;
  /** Sends what is left. */
  close(): Promise<void>;
};

/** Starts tracing if the environment asks for it. @param version of the program */
export async function startTracing(version: string, env = process.env): Promise<Tracing | undefined> {
  if (!isTracingWanted(env)) return undefined;
  const [api, core, sdk, { OTLPTraceExporter }, resources] = await Promise.all([
    import("@opentelemetry/api"),
    import("@opentelemetry/core"),
    import("@opentelemetry/sdk-trace-base"),
    import("@opentelemetry/exporter-trace-otlp-http"),
    import("@opentelemetry/resources"),
  ]);
  // Endpoint, headers, sampler and limits are read from the standard variables by these classes themselves.
  const own = resources.resourceFromAttributes({ "service.name": "quiver", "service.version": version });
  const given = resources.detectResources({ detectors: [resources.envDetector] });
  const provider = new sdk.BasicTracerProvider({
    resource: own.merge(given),
    spanProcessors: [new sdk.BatchSpanProcessor(new OTLPTraceExporter())],
  });
  const tracer = provider.getTracer("quiver", version);
  const propagator = new core.W3CTraceContextPropagator();
  return {
    request(method, route, headers, collection) {
      const caller = propagator.extract(api.ROOT_CONTEXT, headers, api.defaultTextMapGetter);
      const attributes = {
        "http.request.method": method,
        "http.route": route,
        ...(collection !== undefined && { "quiver.collection": collection }),
      };
      const span = tracer.startSpan(`${method} ${route}`, { kind: api.SpanKind.SERVER, attributes }, caller);
      return new SpanTrace(tracer, span, api.trace.setSpan(caller, span), api.SpanStatusCode.ERROR);
    },
    close: () => provider.shutdown(),
  };
}

class SpanTrace implements RequestTrace {
  readonly #tracer: Tracer;
  readonly #span: Span;
  readonly #context: Context;
  readonly #error: number;
  /** Steps that have not ended. */
  readonly #open = new Set<Span>();

  constructor(tracer: Tracer, span: Span, context: Context, error: number) {
    this.#tracer = tracer;
    this.#span = span;
    this.#context = context;
    this.#error = error;
  }

  begin(name: string, attributes: TraceAttributes = {}): TraceSpan {
    const span = this.#tracer.startSpan(name, { attributes }, this.#context);
    this.#open.add(span);
    return {
      end: (more: TraceAttributes = {}) => {
        this.#open.delete(span);
        span.setAttributes(more).end();
      },
    };
  }

  finish(status: number): void {
    for (const span of this.#open) span.setStatus({ code: this.#error }).end();
    this.#open.clear();
    this.#span.setAttribute("http.response.status_code", status);
    if (status >= 500) this.#span.setStatus({ code: this.#error });
    this.#span.end();
  }
}
