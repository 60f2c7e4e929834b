// Which page is shown?
//
// The part of the address after # says so: #/collections/NAME/search?like=ID. The server sees none of it.

import { useEffect, useRef, useState } from "preact/hooks";

export type Route = {
  /** Decoded. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
};

export function parseRoute(hash: string): Route {
  const [path, query = ""] = hash.replace(/^#?\/?/, "").split("?");
  return {
    path: path
      .split("/")
      .filter((part) => part !== "")
      .map(decoded),
    query: new URLSearchParams(query),
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a page. */
export function hrefOf(path: readonly string[], query: Readonly<Record<string, string>> = {}): string {
  const search = new URLSearchParams(query).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${search === "" ? "" : `?${search}`}`;
}

export function useRoute(): Route {
  const shown = useRef(location.hash);
  const [route, setRoute] = useState(() => parseRoute(shown.current));
  useEffect(() => {
    const update = () => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", update);
    // It may have changed between the first rendering and now.
    if (location.hash !== shown.current) update();
    return () => removeEventListener("hashchange", update);
  }, []);
  return route;
}
