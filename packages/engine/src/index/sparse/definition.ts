// Is the definition of a sparse index complete and possible, and what are its defaults?

import { checkFields } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import { SparseIndex, sparseLevels } from "@quiverdb/protocol/shapes/index-definition";
import { checkName, integer, oneOf, requireEnabled } from "../definition-checks.ts";
import type { IndexedCollection } from "../kind.ts";

/** @throws unknown_field, invalid_request, modality_not_enabled */
export function defineSparseIndex(collection: IndexedCollection, given: SparseIndex): SparseIndex {
  checkFields(SparseIndex, given);
  requireEnabled(collection.sparse, "sparse", "sparse vectors");
  checkName(given.name);
  oneOf(given.quantization, sparseLevels, "quantization");
  return {
    name: given.name,
    quantization: given.quantization,
    sample_threshold: integer(given.sample_threshold, 0, "sample_threshold", limits.sampleThresholdMax),
  };
}

/** What `auto_create_index` makes. */
export const defaultSparseIndex: SparseIndex = { name: "sparse", quantization: 256, sample_threshold: 1000 };
