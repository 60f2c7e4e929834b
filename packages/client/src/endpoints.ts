// Which parameters does a path have, and what does its response contain? Types alone: the client runs without the schemas.

import type { RouteName, routes } from "@quiverdb/protocol/routes";
import type { Static, TSchema } from "typebox";

type Routes = typeof routes;

type NamesIn<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | NamesIn<Rest>
  : never;

/** The path parameters of a route: `{ collection_id: string, ... }`. */
export type ParamsOf<R extends RouteName> = { readonly [N in NamesIn<Routes[R]["path"]>]: string };

/** The response body of a route; undefined if it has none. */
export type AnswerOf<R extends RouteName> = Routes[R] extends { answer: infer S extends TSchema }
  ? Static<S>
  : undefined;
