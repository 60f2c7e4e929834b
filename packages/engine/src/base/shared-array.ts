// How is an array made that other threads can read?

/** A class of typed arrays, such as `Uint32Array`. */
export interface ArrayClass<T> {
  new (buffer: ArrayBufferLike): T;
  readonly BYTES_PER_ELEMENT: number;
}

/** So many zeros in shared memory. */
export function sharedArray<T>(Values: ArrayClass<T>, length: number): T {
  return new Values(new SharedArrayBuffer(Values.BYTES_PER_ELEMENT * length));
}
