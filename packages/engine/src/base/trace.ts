// Which steps does the work on a request consist of, and how long does each take?
//
// Whoever wants to know passes a trace with the call (`CallOptions`), such as the server for OpenTelemetry. Without one, each step costs a
// comparison.

export type TraceAttributes = Readonly<Record<string, string | number | boolean>>;

/** A step that has begun. One that fails is not ended: the trace ends with the request. */
export interface TraceSpan {
  end(attributes?: TraceAttributes): void;
}

/** Receives the steps of one request. */
export interface Trace {
  /** A step begins now. @param name such as `plan`, `leg`, `fetch` or `store` */
  begin(name: string, attributes?: TraceAttributes): TraceSpan;
}
