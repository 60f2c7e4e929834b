// What must the rest of the engine know about sparse indexes?

import { checkFields } from "@quiverdb/protocol/fields";
import { limits } from "@quiverdb/protocol/limits";
import {
  CreateSparseIndex,
  indexNames,
  type SparseIndex as SparseDefinition,
  sparseLevels,
} from "@quiverdb/protocol/shapes/index-definition";
import { nameOf, oneOf, requireEnabled, sampleThreshold } from "../definition-checks.ts";
import type { SharedParts } from "../inverted/attached-parts.ts";
import { weightHash } from "../inverted/check.ts";
import { invertedCheckpoints } from "../inverted/checkpoint-adapter.ts";
import { countsOf, postingBytes, sizeBy, TermSample } from "../inverted/memory.ts";
import { postingFormat } from "../inverted/segment-layout.ts";
import type { IndexedCollection, Kind, PreparedRecords } from "../kind.ts";
import { type SparseLeg, SparseLegs } from "./legs.ts";
import { sparseSearching } from "./searching.ts";
import { SparseIndex, type SparseOptions, type SparseState } from "./sparse-index.ts";
import { SparseReader } from "./sparse-reader.ts";

export const sparseKind: Kind<SparseDefinition, SparseIndex, SparseState, PreparedRecords, SparseReader> = {
  name: "sparse",
  define: defineSparseIndex,
  automatic: {
    definition: {},
    isWanted: ({ sparse_vector }) => sparse_vector?.auto_create_index === true && sparse_vector.enabled,
  },
  table: "records",
  countOf: ({ sparse }) => sparse,
  blueprint(_collection, { quantization: levels }, { mayTake, retire }) {
    const options: SparseOptions = { levels, mayTake, retire };
    return {
      make: () => new SparseIndex(options),
      checkpoint: invertedCheckpoints((state, load, task) =>
        SparseIndex.restored(options, state, load, task),
      ),
      deciding: { postingFormat, levels },
    };
  },
  add(index, ordinal, _bytes, content) {
    const { sparse } = content();
    if (sparse) index.add(ordinal, sparse.indices, sparse.values);
  },
  estimate(_collection, _definition, { counts, sample }) {
    const terms = new TermSample();
    for (const { sparse } of sample()) if (sparse) terms.add([...sparse.indices]);
    return sizeBy(counts.sparse, (records) => postingBytes(false, countsOf(terms, records)));
  },
  descriptor: (index) => index.shared,
  attach: (descriptor, slot) => SparseReader.attach(descriptor as SharedParts, slot),
  search: (reader, legs, version, options) =>
    new SparseLegs(reader, legs as readonly SparseLeg[], version, options),
  searching: sparseSearching,
  growth: (recordBytes, records, otherBytes) => Math.max(records * recordBytes, otherBytes),
  status: () => ({ served_by: "inverted" }),
  postings: (index) => ({
    walk: (add) => index.weights((dimension, ordinal, weight) => add(ordinal, weightHash(dimension, weight))),
    *hashesOf({ sparse }) {
      if (sparse === null) return;
      for (let i = 0; i < sparse.indices.length; i++) yield weightHash(sparse.indices[i], sparse.values[i]);
    },
  }),
};

// ---- Is the definition of a sparse index complete and possible, and what are its defaults?

/** The definition with all defaults filled in. @throws unknown_field, invalid_request, modality_not_enabled */
export function defineSparseIndex(collection: IndexedCollection, given: CreateSparseIndex): SparseDefinition {
  checkFields(CreateSparseIndex, given);
  requireEnabled(collection.sparse, "sparse", "sparse vectors");
  const name = nameOf(given.name, indexNames.sparse);
  const quantization = given.quantization ?? limits.sparseLevelsDefault;
  oneOf(quantization, sparseLevels, "quantization");
  return { name, quantization, sample_threshold: sampleThreshold(given) };
}
