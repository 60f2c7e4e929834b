// What becomes of filters in a call in the same process?
//
// What JSON would make of them, as over HTTP: conditions of `where` become plain objects wherever they stand, and what the caller changes
// afterwards does not change the search.

/** The lists of a batch whose items may have a filter. */
const lists = ["queries", "query_terms_list"] as const;

/** The body of a request with plain filters; any other value unchanged. */
export function withPlainFilters(body: unknown): unknown {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  const request = withPlainFilter(body as Record<string, unknown>);
  const changed = lists.flatMap((name) => {
    const items = request[name];
    return Array.isArray(items) ? [[name, items.map(itemWithPlainFilter)]] : [];
  });
  return changed.length === 0 ? request : { ...request, ...Object.fromEntries(changed) };
}

function itemWithPlainFilter(item: unknown): unknown {
  const isObject = typeof item === "object" && item !== null && !Array.isArray(item);
  return isObject ? withPlainFilter(item as Record<string, unknown>) : item;
}

function withPlainFilter(request: Record<string, unknown>): Record<string, unknown> {
  const { filter } = request;
  if (typeof filter !== "object" || filter === null) return request;
  return { ...request, filter: JSON.parse(JSON.stringify(filter)) };
}
