// How is an inverted index checkpointed?
//
// At once, and it goes on meanwhile; its tail is replayed after a crash, and is made a run before an index is put away.

import type { CheckpointForm } from "../checkpoint-form.ts";
import type { Index } from "../contract.ts";
import type { Kept } from "./kept.ts";
import type { PostingState } from "./posting-index.ts";

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

export function invertedCheckpoints<
  Held extends Inverted<State>,
  State extends { readonly postings: PostingState },
>(
  restored: (state: State, load: (images: readonly Uint8Array[]) => Promise<void>) => Promise<Held>,
): CheckpointForm<Held, State> {
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
