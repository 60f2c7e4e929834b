// Is the definition of a sparse index complete and possible, and what are its defaults?

import { checkFields } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import {
  CreateSparseIndex,
  indexNames,
  type SparseIndex,
  sparseLevels,
} from "@quiverdb/protocol/shapes/index-definition";
import { nameOf, oneOf, requireEnabled, sampleThreshold } from "../definition-checks.ts";
import type { IndexedCollection } from "../kind.ts";

/** The definition with all defaults filled in. @throws unknown_field, invalid_request, modality_not_enabled */
export function defineSparseIndex(collection: IndexedCollection, given: CreateSparseIndex): SparseIndex {
  checkFields(CreateSparseIndex, given);
  requireEnabled(collection.sparse, "sparse", "sparse vectors");
  const name = nameOf(given.name, indexNames.sparse);
  const quantization = given.quantization ?? limits.sparseLevelsDefault;
  oneOf(quantization, sparseLevels, "quantization");
  return { name, quantization, sample_threshold: sampleThreshold(given) };
}
