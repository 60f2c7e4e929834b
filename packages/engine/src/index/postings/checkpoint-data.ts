// What does an index hand out, for a checkpoint?
//
// A small state, and images: bytes in shared memory that another thread writes to disk while the index goes on. The same
// state and images make the index again.

export type CheckpointData<State> = {
  /** Of plain values and typed arrays; a copy. */
  readonly state: State;
  /** They do not change until `done` is called. */
  readonly images: readonly Uint8Array[];
  /** To be called once, with whether the checkpoint was written. */
  done(isCheckpointed: boolean): void;
};
