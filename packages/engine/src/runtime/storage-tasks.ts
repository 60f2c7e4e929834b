// What do builders do with files? Checkpoints are written and read, and stores verified before they are opened.

import { deserialize, serialize } from "node:v8";
import { limits } from "@quiverdb/protocol/limits";
import type { Finding } from "@quiverdb/protocol/shapes/check";
import { failpoint } from "../base/failpoint.ts";
import { invariant } from "../base/invariant.ts";
import type { CollectionDefinition } from "../collection/definition.ts";
import { isBearable, verifyCollection } from "../collection/verify.ts";
import type { Task } from "../index/builders.ts";
import type { CheckpointMeta } from "../index/checkpoint-adapter.ts";
import { type CheckpointPart, CheckpointReader, writeCheckpoint } from "../process/checkpoint-file.ts";

type Checkpoint = {
  readonly path: string;
  readonly meta: CheckpointMeta;
  /** Plain values and typed arrays. */
  readonly state: unknown;
  /** In shared memory; they must not change until the task is done. */
  readonly images: readonly Uint8Array[];
  /** If the images are rows: the bytes of each. */
  readonly rowBytes?: number;
};

/** Writes a checkpoint. */
export const checkpointWriting: Task<Checkpoint, void> = {
  name: "checkpoint writing",
  // biome-ignore lint/correctness/useYield: it is one step
  *run({ path, meta, state, images, rowBytes }) {
    const parts: CheckpointPart[] = [{ bytes: serialize(state) }];
    for (const bytes of images) parts.push({ bytes, rowBytes });
    writeCheckpoint(path, meta, parts);
  },
};

/** Reads the description and the state of a checkpoint. @throws if it is missing or damaged */
export const checkpointOpening: Task<string, { meta: CheckpointMeta; state: unknown }> = {
  name: "checkpoint opening",
  // biome-ignore lint/correctness/useYield: it is one step
  *run(path) {
    const reader = new CheckpointReader(path);
    try {
      const state = new Uint8Array(reader.lengthOf(0));
      reader.read(0, state);
      return { meta: reader.meta as CheckpointMeta, state: deserialize(state) };
    } finally {
      reader.close();
    }
  },
};

/** Reads the images into shared memory. @throws if they are damaged */
export const checkpointLoading: Task<Pick<Checkpoint, "path" | "images">, void> = {
  name: "checkpoint loading",
  // biome-ignore lint/correctness/useYield: it is one step
  *run({ path, images }) {
    failpoint("checkpoint:read");
    const reader = new CheckpointReader(path);
    try {
      invariant(reader.partCount === images.length + 1, `the checkpoint has ${reader.partCount - 1} images`);
      for (const [i, image] of images.entries()) reader.read(i + 1, image);
    } finally {
      reader.close();
    }
  },
};

type Stored = { readonly directory: string; readonly definition: CollectionDefinition };

/** Verifies the store of a collection, which must not be open. @throws if its file is entirely unreadable */
export const storeVerification: Task<Stored, Finding[]> = {
  name: "store verification",
  *run({ directory, definition }) {
    const findings: Finding[] = [];
    const onFinding = (finding: Finding) => {
      // The limit must not drop a finding that prevents opening the store.
      if (findings.length < limits.findingsMax || !isBearable(finding)) findings.push(finding);
    };
    verifyCollection(directory, { depth: "quick", definition, onFinding });
    return findings.slice(-limits.findingsMax);
  },
};
