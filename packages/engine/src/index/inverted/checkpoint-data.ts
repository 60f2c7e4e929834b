// What does an index hand out for a checkpoint?
//
// A small state, and images: bytes in shared memory that another thread writes to disk while the index stays in use. Restoring
// makes the index again from the same state and images.

export type CheckpointData<State> = {
  /** Plain values and typed arrays; a copy. */
  readonly state: State;
  /** They do not change until `done` is called. */
  readonly images: readonly Uint8Array[];
  /** The caller calls this once, with whether the checkpoint was written. */
  done(isCheckpointed: boolean): void;
};
