// Where is the checkpoint of an index?
//
// In a file of its collection's directory (checkpoint-file.ts). Builder threads read and write it.

import { existsSync } from "node:fs";
import { ask, type Builders } from "../index/builders.ts";
import type { CheckpointMeta, CheckpointPlace } from "../index/checkpoint-adapter.ts";
import { CheckpointReader, removeCheckpoint } from "../process/checkpoint-file.ts";
import { checkpointLoading, checkpointOpening, checkpointWriting } from "./storage-tasks.ts";

export class CheckpointOnDisk implements CheckpointPlace {
  readonly #path: string;
  readonly #builders: Builders;

  constructor(path: string, builders: Builders) {
    this.#path = path;
    this.#builders = builders;
  }

  get isThere(): boolean {
    return existsSync(this.#path);
  }

  open(): Promise<{ meta: CheckpointMeta; state: unknown }> {
    return ask(this.#builders, checkpointOpening, this.#path);
  }

  load(images: readonly Uint8Array[]): Promise<void> {
    return ask(this.#builders, checkpointLoading, { path: this.#path, images });
  }

  save(
    meta: CheckpointMeta,
    state: unknown,
    images: readonly Uint8Array[],
    rowBytes?: number,
  ): Promise<void> {
    return ask(this.#builders, checkpointWriting, { path: this.#path, meta, state, images, rowBytes });
  }

  remove(): void {
    removeCheckpoint(this.#path);
  }
}

/** Memory that an index takes when it is loaded from its checkpoint, its records, and its version. */
export type CheckpointSize = { readonly bytes: number; readonly records: number; readonly version: number };

/** The size that a checkpoint states; undefined without a usable checkpoint of this configuration. */
export function checkpointSize(path: string, configuration: string): CheckpointSize | undefined {
  if (!existsSync(path)) return undefined;
  let file: CheckpointReader;
  try {
    file = new CheckpointReader(path);
  } catch {
    // A checkpoint that fails verification counts as absent (invariant 5). Loading it reports the error.
    return undefined;
  }
  file.close();
  const meta = file.meta as CheckpointMeta;
  if (meta.configuration !== configuration) return undefined;
  if (meta.restoredBytes === undefined || meta.records === undefined) return undefined;
  return { bytes: meta.restoredBytes, records: meta.records, version: meta.version };
}
