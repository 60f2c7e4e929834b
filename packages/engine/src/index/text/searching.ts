// How do requests ask for texts?

import { limits } from "@quiverdb/protocol/limits";
import * as search from "@quiverdb/protocol/shapes/search";
import { bytesBeyond } from "../../base/bytes.ts";
import type { Steps } from "../../base/steps.ts";
import { parseInSteps } from "../../text/operators.ts";
import { invalid, requireContent } from "../definition-checks.ts";
import type { IndexedCollection, Searching } from "../kind.ts";
import type { TextLeg } from "./legs.ts";

function* leg(
  collection: IndexedCollection,
  text: unknown,
  path: string,
  syntax: search.TextSyntax,
): Steps<TextLeg> {
  requireContent(collection.text, "text search", path);
  checkText(text, path);
  const clauses = syntax === "operators" ? yield* parseInSteps(text, path) : null;
  return { kind: "tf-idf", text, clauses, path };
}

/** Checks a text that is searched for or analysed. @throws invalid_request */
export function checkText(text: unknown, path: string): asserts text is string {
  if (typeof text !== "string") throw invalid(path, "must be a string.");
  const bytes = bytesBeyond(text, limits.queryTextBytesMax);
  if (bytes > 0) throw invalid(path, `has ${bytes} bytes, at most ${limits.queryTextBytesMax} are allowed.`);
}

function syntaxOf({ syntax }: { syntax?: search.TextSyntax | null }): search.TextSyntax {
  const wanted = syntax ?? "plain";
  if (search.textSyntaxes.includes(wanted)) return wanted;
  throw invalid("syntax", `is ${JSON.stringify(syntax)}; expected one of ${search.textSyntaxes.join(", ")}.`);
}

export const textSearching: Searching<search.TextSyntax> = {
  options: syntaxOf,
  single: {
    name: "text",
    shape: search.TextSearch,
    leg(collection, { query, query_text }: search.TextSearch, syntax) {
      const text = query ?? query_text;
      if (text === null || text === undefined)
        throw invalid("query", "is missing; expected the text to search for, a string.");
      return leg(collection, text, "query", syntax);
    },
  },
  batch: {
    name: "batchText",
    shape: search.BatchTextSearch,
    queries: "queries",
    leg: (collection, query: unknown, path, syntax) =>
      typeof query === "object" && query !== null
        ? leg(collection, (query as { query?: unknown }).query, `${path}.query`, syntax)
        : leg(collection, query, path, syntax),
  },
  hybrid: { field: "query_text", weight: "text", options: syntaxOf, leg },
};
