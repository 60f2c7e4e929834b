// How does an index of each kind hand out what is kept of it?
//
// A dense index does so when no builder is at work, and stands still until it is written. An inverted one does so at once, and
// goes on meanwhile; its tail is replayed after a crash, and is made a run before an index is put away.

import type { Index } from "../index/contract.ts";
import { HnswIndex, type HnswOptions, type HnswState } from "../index/hnsw/hnsw-index.ts";
import type { Kept } from "../index/postings/kept.ts";
import type { PostingState } from "../index/postings/posting-index.ts";
import type { KeptForm } from "./keeper.ts";

export function denseForm(options: HnswOptions): KeptForm<HnswIndex, HnswState> {
  return {
    changes: (index) =>
      index.failure !== undefined || index.encoding === undefined ? undefined : index.changes,
    hasNews: (index) => index.hasNewEffort,
    isIdle: (index) => index.isIdle,
    save: (index, write) =>
      new Promise((resolve, reject) => {
        index.save((state, graphs, done) => {
          write(
            state,
            graphs.map(({ image }) => image),
          ).then(
            (isKept) => {
              done(isKept);
              resolve();
            },
            (error: unknown) => {
              done(false);
              reject(error as Error);
            },
          );
        }, resolve);
      }),
    endOf: ({ linkedEnd }) => linkedEnd,
    restored: (state, load) =>
      HnswIndex.restored(options, state, (graphs) => load(graphs.map(({ image }) => image))),
  };
}

/** An index that hands out what is kept of it at once. */
interface Inverted<State> extends Index {
  readonly changes: number;
  readonly isIdle: boolean;
  /** Records that `save` leaves out. */
  readonly tailCount: number;
  /** Sees to it that none is left out. */
  seal(): void;
  save(): Kept<State>;
}

export function invertedForm<Held extends Inverted<State>, State extends { readonly postings: PostingState }>(
  restored: (state: State, load: (images: readonly Uint8Array[]) => Promise<void>) => Promise<Held>,
): KeptForm<Held, State> {
  return {
    changes: (index, isLast) => index.changes + (isLast ? index.tailCount : 0),
    hasNews: () => false,
    isIdle: (index) => index.isIdle,
    async save(index, write, isLast) {
      if (isLast) index.seal();
      const { state, images, done } = index.save();
      let isKept = false;
      try {
        isKept = await write(state, images);
      } finally {
        done(isKept);
      }
    },
    endOf: ({ postings }) => postings.end,
    restored,
  };
}
