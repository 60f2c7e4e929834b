// How is an inverted index checkpointed?
//
// At once, while the index stays in use. After a crash the engine replays the records of the mutable buffer; before an index is
// unloaded, they become a segment, in time slices, as a restored index is prepared for its first search.

import { Task } from "../../base/scheduler.ts";
import type { Steps } from "../../base/steps.ts";
import type { CheckpointAdapter } from "../checkpoint-adapter.ts";
import type { Index } from "../contract.ts";
import type { CheckpointData } from "./checkpoint-data.ts";
import type { PostingState } from "./posting-index.ts";

/** An index whose checkpoint is available at once. */
interface Inverted<State> extends Index {
  readonly changes: number;
  readonly isIdle: boolean;
  /** Records that `save` leaves out. */
  readonly bufferedCount: number;
  /** Makes a segment of the mutable buffer, so that `save` leaves no record out. */
  freeze(): Steps<void>;
  save(): CheckpointData<State>;
}

const taskOfCheckpoints = () => new Task({ key: "checkpoints" });

export function invertedCheckpoints<
  Held extends Inverted<State>,
  State extends { readonly postings: PostingState },
>(
  restored: (
    state: State,
    load: (images: readonly Uint8Array[]) => Promise<void>,
    task: Task,
  ) => Promise<Held>,
): CheckpointAdapter<Held, State> {
  return {
    changes: (index, isLast) => index.changes + (isLast ? index.bufferedCount : 0),
    hasNews: () => false,
    isIdle: (index) => index.isIdle,
    async save(index, write, isLast) {
      if (isLast) await taskOfCheckpoints().finish(index.freeze());
      const { state, images, done } = index.save();
      let isCheckpointed = false;
      try {
        isCheckpointed = await write(state, images);
      } finally {
        done(isCheckpointed);
      }
    },
    endOf: ({ postings }) => postings.end,
    restored: (state, load) => restored(state, load, taskOfCheckpoints()),
  };
}
