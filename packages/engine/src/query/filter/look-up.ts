// Where does a search find the records that match its filter?

import type { Warning } from "@quiverdb/protocol/shapes/warning";
import type { Steps } from "../../base/steps.ts";
import type { Filter } from "../../filter/filter.ts";
import type { OrdinalBitmap } from "../../index/ordinal-bitmap.ts";
import type { View } from "../../runtime/view.ts";
import { fieldsOf } from "./absent-fields.ts";
import { visibleMatches } from "./matching.ts";
import { type FoundSet, matchesOf } from "./set-cache.ts";
import { warningsOf } from "./warnings.ts";

export type FilterLookUp = {
  /** As a search takes them: ordinals that the version does not see can be among them. */
  matching(filter: Filter): Steps<FoundSet>;
  /** Those that the version sees. */
  visible(filter: Filter): Steps<OrdinalBitmap>;
  /** What is probably wrong with a filter that no record matches. */
  warnings(filter: Filter, found: FoundSet): Steps<Warning[]>;
  /** Names of fields that records have, as far as that is known without a walk over them. */
  fields(): Steps<string[]>;
};

/** In the metadata indexes and the records of a view, in the thread that owns it. */
export const lookUpIn = (view: View): FilterLookUp => ({
  matching: (filter) => matchesOf(view, filter),
  visible: (filter) => visibleMatches(view, filter),
  warnings: (filter, { absent }) => warningsOf(view, filter, absent),
  fields: () => fieldsOf(view),
});
