// Which of the ranked hits are results?
//
// In this order: hits with a score below the threshold are left out, then those beyond the size of their group; of the rest the most
// diverse are chosen (diversity.ts), and then so many are left out as the offset says. With groups, the hits that fill a page may lie deep in the ranking, so a query is run again with a greater depth until the page is
// full, or there are no more hits.

import { limits } from "@quiverdb/protocol/limits";
import type { FilterValue } from "@quiverdb/protocol/shapes/filter";
import type { Steps } from "../base/steps.ts";
import { recordOf } from "../collection/record-id-cache.ts";
import type { Field } from "../metadata/field.ts";
import { type FoundValue, MetadataScanner } from "../metadata/scan.ts";
import type { SearchedView } from "../views/view.ts";
import { diverse, type Vectors, vectorsIn } from "./diversity.ts";
import type { Plan, Selection } from "./plan.ts";
import type { Hit } from "./rank.ts";

export type Selected = {
  readonly hits: Hit[];
  /** The group of each hit; undefined without groups. */
  readonly groups: readonly (FilterValue | null)[] | undefined;
  /** Whether a deeper ranking could have more results. */
  readonly isShort: boolean;
};

/** With groups the ranking is so many times deeper at first, and each time that it is too short. */
const groupFactor = 4;

/** How many hits are ranked at first. */
export const firstDepth = (plan: Pick<Plan, "topK" | "selection">): number =>
  (plan.selection.group === null ? 1 : groupFactor) * wantedOf(plan) + plan.selection.excluded.size;

/** Hits of the groups that are wanted: the results up to the end of the page, or candidates for them. */
const wantedOf = ({ topK, selection }: Pick<Plan, "topK" | "selection">): number =>
  selection.diversity?.candidates ?? selection.offset + topK;

/** How many are ranked when that was too short; undefined: not more. */
export const nextDepth = (depth: number): number | undefined =>
  depth >= limits.groupDepthMax ? undefined : Math.min(limits.groupDepthMax, groupFactor * depth);

/** What is read of hits, by their ordinals. */
export interface HitReader extends Vectors {
  /** The group of a record by a field; null: it is in none. */
  groupsBy(field: Field): (ordinal: number) => FilterValue | null;
}

/** Reads hits of a view. */
export const hitsIn = (view: SearchedView): HitReader => ({
  ...vectorsIn(view),
  groupsBy: (field) => {
    const reader = new GroupReader(view, field);
    return (ordinal) => reader.read(ordinal);
  },
});

/** Records whose groups are read at a step. */
const groupsPerStep = 64;

/** @param ranked best first. @param depth how many hits were asked for */
export function* select(
  reader: HitReader,
  plan: Pick<Plan, "topK" | "selection">,
  ranked: readonly Hit[],
  depth: number,
): Steps<Selected> {
  const { scoreMin, offset, group, excluded, diversity } = plan.selection;
  const end = offset + plan.topK;
  const others = excluded.size === 0 ? ranked : ranked.filter(({ ordinal }) => !excluded.has(ordinal));
  const found = others.filter(({ score }) => score >= scoreMin);
  const wanted = wantedOf(plan);
  const kept =
    group === null
      ? found.slice(0, wanted).map((hit): Kept => ({ hit, group: null }))
      : yield* firstOfGroups(reader, found, group, wanted);
  const chosen = diversity === null ? kept : yield* diverse(reader, kept, end, diversity.share);
  const page = chosen.slice(offset, end);
  return {
    hits: page.map(({ hit }) => hit),
    groups: group === null ? undefined : page.map((each) => each.group),
    isShort:
      group !== null && kept.length < wanted && found.length === others.length && ranked.length >= depth,
  };
}

type Kept = { readonly hit: Hit; readonly group: FilterValue | null };

/** The first hits that fit into their groups. @param wanted how many at most */
function* firstOfGroups(
  reader: HitReader,
  found: readonly Hit[],
  group: NonNullable<Selection["group"]>,
  wanted: number,
): Steps<Kept[]> {
  const groupOf = reader.groupsBy(group.field);
  const sizes = new Map<FilterValue, number>();
  const kept: Kept[] = [];
  for (const [i, hit] of found.entries()) {
    if (kept.length === wanted) break;
    const of = groupOf(hit.ordinal);
    const size = of === null ? 0 : (sizes.get(of) ?? 0);
    if (size < group.size) {
      kept.push({ hit, group: of });
      if (of !== null) sizes.set(of, size + 1);
    }
    if (i % groupsPerStep === groupsPerStep - 1) yield;
  }
  return kept;
}

/** Reads the group of one record after the other. */
class GroupReader {
  readonly #view: SearchedView;
  readonly #field: Field;
  readonly #scanner: MetadataScanner;
  #value: FilterValue | null = null;

  constructor(view: SearchedView, field: Field) {
    this.#view = view;
    this.#field = field;
    this.#scanner = new MetadataScanner([field]);
  }

  /** Null: the record is in no group. */
  read(ordinal: number): FilterValue | null {
    const { readTxn, recordIds } = this.#view;
    if (this.#field.record !== undefined) {
      const { id, documentId } = recordIds.of(readTxn, ordinal);
      return this.#field.record === "id" ? id : documentId;
    }
    this.#value = null;
    const metadata = recordOf(readTxn, ordinal).metadataBytes;
    if (metadata !== null) this.#scanner.scan(metadata, this.#visit);
    return this.#value;
  }

  readonly #visit = (_field: number, value: FoundValue): void => {
    if (value.type !== "object") this.#value ??= value.type === "string" ? value.text : value[value.type];
  };
}
