// What do the threads of the hammer tell each other?

import type { MessagePort } from "node:worker_threads";
import type { IndexKind } from "@quiverdb/protocol/shapes/index-definition";
import type { SharedEpochs } from "../../../src/base/epochs.ts";
import type { SharedView } from "../../../src/views/view.ts";
import type { SharedHistory } from "./history.ts";

export type WritingStart = {
  readonly history: SharedHistory;
  readonly kinds: readonly IndexKind[];
  readonly readerSlots: number;
  /** [0]: not 0: stop. [slot]: 1: the reader of the slot wants a view. */
  readonly flags: Int32Array<SharedArrayBuffer>;
};

/** To a writer. */
export type ToWriter =
  | { readonly kind: "reader"; readonly slot: number; readonly port: MessagePort }
  | { readonly kind: "abandon"; readonly slot: number };

/** From a writer, first, and at its end. */
export type FromWriter =
  | { readonly kind: "begun"; readonly epochs: SharedEpochs }
  | { readonly kind: "abandoned"; readonly slot: number }
  | { readonly kind: "ended"; readonly report: WritingReport };

export type WritingReport = {
  readonly versions: number;
  readonly ordinals: number;
  readonly removed: number;
  readonly posted: number;
  readonly retired: number;
  readonly freed: number;
};

/** To a reader: what a writer has published. */
export type PostedView = { readonly view: SharedView; readonly first: number };

export type ReadingStart = {
  readonly slot: number;
  readonly seed: number;
  readonly collections: readonly {
    readonly history: SharedHistory;
    readonly epochs: SharedEpochs;
    readonly port: MessagePort;
    readonly flags: Int32Array<SharedArrayBuffer>;
  }[];
  /** [0]: not 0: stop. [1]: answers that were compared, of all readers. [2]: those that were wrong. */
  readonly stop: Int32Array<SharedArrayBuffer>;
};

export type ReadingReport = {
  readonly answers: Record<string, { answers: number; wanted: number; found: number }>;
  readonly pins: number;
  readonly refusedPins: number;
  readonly oldPins: number;
  readonly wrong: readonly string[];
};
