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

/** Kinds with a part that not all have. */
type With<Part extends keyof Kind> = Kind & { readonly [P in Part]-?: NonNullable<Kind[P]> };

/** The kinds that have a part, and those that a search asks for, as they were found; every search asks. */
const found = new Map<keyof Kind, readonly Kind[]>();
const searched = new Map<string, SearchedKind>();

/** Those that have a part, in their order. */
export function kindsWith<Part extends keyof Kind>(part: Part): readonly With<Part>[] {
  let having = found.get(part);
  if (having === undefined) {
    having = [...kinds.values()].filter((kind) => kind[part] !== undefined);
    found.set(part, having);
  }
  return having as readonly With<Part>[];
}

/** The first that has a part, such as vectors. */
export function kindWith<Part extends keyof Kind>(part: Part): With<Part> {
  const [first] = kindsWith(part);
  invariant(first !== undefined, `no kind has ${part}`);
  return first;
}

export type SearchedKind = With<"searching">;

/** The kind that a search asks for alone. @param search its name, of a single search or of a batch */
export function kindSearchedBy(search: string): SearchedKind {
  const known = searched.get(search);
  if (known !== undefined) return known;
  const kind = kindsWith("searching").find(
    ({ searching: { single, batch } }) => single.name === search || batch?.name === search,
  );
  invariant(kind !== undefined, `there is no search named ${search}`);
  searched.set(search, kind);
  return kind;
}

/** Adds a kind, as a test does. @returns what takes it out again */
export function register(kind: Kind): () => void {
  invariant(!kinds.has(kind.name), `there are two kinds named ${kind.name}`);
  kinds.set(kind.name, kind);
  forget();
  return () => {
    kinds.delete(kind.name);
    forget();
  };
}

function forget(): void {
  found.clear();
  searched.clear();
}
