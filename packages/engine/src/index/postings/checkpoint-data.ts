// What does an index hand out, so that it can be kept on disk?
//
// A small state, and images: bytes in shared memory that another thread writes to disk while the index goes on. An index that
// was kept is made of the same state and the same images.

export type CheckpointData<State> = {
  /** Of plain values and typed arrays; a copy. */
  readonly state: State;
  /** They do not change until `done` is called. */
  readonly images: readonly Uint8Array[];
  /** To be called once, with whether they were kept. */
  done(isCheckpointed: boolean): void;
};
