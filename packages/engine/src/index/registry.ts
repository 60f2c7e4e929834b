// Which kinds of index exist?
//
// A collection has one index of most kinds, whose name is that of the kind. Of a family it has any number: their names begin with the
// family's, and each has an object of its own.

import { type IndexKind, metadataPrefix } from "@quiverdb/protocol/shapes/index-definition";
import { invariant } from "../base/invariant.ts";
import { denseKind } from "./dense/kind.ts";
import { metadataKind } from "./fields/kind.ts";
import type { Kind } from "./kind.ts";
import { sparseKind } from "./sparse/kind.ts";
import { textKind } from "./text/kind.ts";

/** By name, in the order of the legs of a hybrid search. A new kind is a line here. */
const kinds = new Map<string, Kind>([denseKind, sparseKind, textKind].map((kind) => [kind.name, kind]));

/** By the beginning of their names. */
const families: Readonly<Record<string, (name: string) => Kind>> = { [metadataPrefix]: metadataKind };

/** The kind of a name that a definition has. */
export function kindNamed(name: string): Kind {
  const kind = kinds.get(name) ?? ofFamily(name);
  invariant(kind !== undefined, `there is no index of the kind ${name}`);
  return kind;
}

function ofFamily(name: string): Kind | undefined {
  const prefix = Object.keys(families).find((beginning) => name.startsWith(beginning));
  return prefix === undefined ? undefined : families[prefix](name);
}

/** All of them, without families. */
export const kindNames = (): IndexKind[] => [...kinds.values()].map(({ name }) => name);

/** Adds a kind, as a test does. @returns what takes it out again */
export function register(kind: Kind): () => void {
  invariant(!kinds.has(kind.name), `there are two kinds named ${kind.name}`);
  kinds.set(kind.name, kind);
  return () => {
    kinds.delete(kind.name);
  };
}
