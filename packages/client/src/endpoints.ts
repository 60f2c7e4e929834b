// Which parameters does the path of an operation have, and what is its answer?

import type { Answers, endpoints } from "./endpoint-list.ts";

/** The name of an operation. */
export type OperationName = keyof typeof endpoints;

type NamesIn<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | NamesIn<Rest>
  : never;

/** Its path parameters: `{ collection_id: string, ... }`. */
export type ParamsOf<Name extends OperationName> = {
  readonly [Parameter in NamesIn<(typeof endpoints)[Name]["path"]>]: string;
};

/** Its answer; undefined if it has none. */
export type AnswerOf<Name extends OperationName> = Answers[Name];
