// Would this version of Quiver create the collection and the indexes of a backup?
//
// A backup may come from anywhere, so a collection that cannot be created cannot be restored either. The check runs on the request
// thread, which has the code for definitions loaded anyway. Loading it in the backup thread would take longer than most backups.

import { QuiverError } from "@quiverdb/protocol/errors";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import { defineCollection } from "../../collection/definition.ts";
import { kindNamed } from "../../index/registry.ts";
import type { BackupHeader } from "./backup-header.ts";
import { invalidSnapshot } from "./block-file.ts";

/** @throws invalid_snapshot, which names the invalid part */
export function checkDefinitions(header: BackupHeader): void {
  try {
    define(header);
  } catch (error) {
    const why = error instanceof QuiverError ? error.message : "it is not of the right shape.";
    throw invalidSnapshot("damaged", 0, `has a definition that this version of Quiver refuses: ${why}`);
  }
}

function define({ collection, indexes }: BackupHeader): void {
  const { dimension, description, maxVectors, replicationFactor, storeRawText } = collection;
  defineCollection({
    name: collection.name,
    description,
    dense_vector: { enabled: collection.dense, dimension },
    sparse_vector: { enabled: collection.sparse },
    tf_idf_options: { enabled: collection.text },
    config: { max_vectors: maxVectors, replication_factor: replicationFactor },
    store_raw_text: storeRawText,
  });
  for (const [kind, definition] of Object.entries(indexes))
    kindNamed(kind as IndexKind).define(collection, definition);
}
