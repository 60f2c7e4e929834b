// Is the path of a request unknown, or only its method wrong?

import { QuiverError } from "@quiverdb/protocol/errors";

type Endpoint = { readonly method: string; readonly segments: readonly string[] };

/** The methods of each path, collected as endpoints are registered. */
export class KnownPaths {
  readonly #endpoints: Endpoint[] = [];

  /** @param pattern path with `:name` for parameters */
  add(method: string, pattern: string): void {
    if (pattern === "*") return;
    this.#endpoints.push({ method, segments: pattern.split("/") });
  }

  /** Methods of the path, sorted; empty for an unknown path. */
  methodsOf(url: string): string[] {
    const segments = url
      .replace(/[?#].*$/s, "")
      .split("/")
      .map(decoded);
    const methods = this.#endpoints
      .filter((endpoint) => matches(endpoint.segments, segments))
      .map((endpoint) => endpoint.method);
    return [...new Set(methods)].sort();
  }

  /** The error for a request without an endpoint. */
  errorFor(method: string, url: string): QuiverError {
    const allowed = this.methodsOf(url);
    if (allowed.length === 0) {
      return new QuiverError(
        "route_not_found",
        "No endpoint has this path. The list of endpoints is at /docs and /openapi.json.",
      );
    }
    return new QuiverError(
      "method_not_allowed",
      `The endpoint does not support ${method}; use ${allowed.join(", ")}.`,
      { method, allowed },
    );
  }
}

function matches(pattern: readonly string[], segments: readonly (string | undefined)[]): boolean {
  if (pattern.length !== segments.length) return false;
  return pattern.every((part, index) =>
    part.startsWith(":") ? segments[index] !== "" : part === segments[index],
  );
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
